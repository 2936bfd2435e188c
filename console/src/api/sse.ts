// Reads the text of a stream of server-sent events, in whatever pieces it comes.

export interface Message {
  event: string;
  data: string;
  id?: string;
}

export class MessageReader {
  private rest = '';
  private event = '';
  private data: string[] = [];
  private id: string | undefined;

  constructor(private readonly onMessage: (message: Message) => void) {}

  push(text: string): void {
    this.rest += text;
    for (;;) {
      const end = this.rest.search(/\r\n|\n|\r(?!$)/);
      if (end < 0) return;
      const line = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + (this.rest.startsWith('\r\n', end) ? 2 : 1));
      this.line(line);
    }
  }

  private line(line: string): void {
    if (line === '') return this.dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.event = value;
    else if (field === 'data') this.data.push(value);
    else if (field === 'id') this.id = value;
  }

  private dispatch(): void {
    if (this.data.length > 0) {
      this.onMessage({ event: this.event || 'message', data: this.data.join('\n'), id: this.id });
    }
    this.event = '';
    this.data = [];
    this.id = undefined;
  }
}
