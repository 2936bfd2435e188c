// A mock of the array: serves console/dist and an API of the same schema, with nothing but Node.
// `node mock/server.mjs --port 4173 --volumes 10000 --empty`; the address with a ticket is printed.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { figuresOf, historyOf, latenciesOf } from './figures.mjs';
import { PASSWORD, wrongLogin } from './access.mjs';
import { Refusal } from './refusal.mjs';
import { routes } from './routes.mjs';
import { makeWorld } from './world.mjs';

const DIST = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
export const TICKET = 'mock-ticket';

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const text = Buffer.concat(parts).toString();
  return text === '' ? undefined : JSON.parse(text);
}

class Mock {
  constructor(options) {
    this.options = options;
    this.world = makeWorld(options);
    this.world.slowMillis = options.slowMillis ?? 300;
    this.world.say = (level, object, message) => this.say(level, object, message);
    this.tokens = new Set();
    this.streams = new Set();
    this.isLiveBroken = false;
    this.requests = [];
    /// What was asked of the API and what it answered, for the check against the schema.
    this.exchanges = [];
    this.server = createServer((request, response) => void this.answer(request, response));
    this.timer = setInterval(() => this.tick(), 1000);
  }

  async listen(port = 0) {
    await new Promise((resolve) => this.server.listen(port, '127.0.0.1', resolve));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async close() {
    clearInterval(this.timer);
    this.endStreams();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /// The address that `ashlar console` would print.
  address(path = '/') {
    return `${this.origin}/console${path}#ticket=${TICKET}`;
  }

  say(level, object, message) {
    const sequence = (this.world.events.at(-1)?.sequence ?? 0) + 1;
    const event = { sequence, boot_id: this.world.bootId, unix_millis: Date.now(), level, object, message };
    this.world.events.push(event);
    this.send('event', event, `${this.world.bootId}:${sequence}`);
  }

  send(event, data, id) {
    const text = `event: ${event}\n${id ? `id: ${id}\n` : ''}data: ${JSON.stringify(data)}\n\n`;
    for (const stream of this.streams) stream.write(text);
  }

  tick() {
    for (const pool of this.world.pools) this.advance(pool);
    if (this.streams.size > 0) this.send('figures', figuresOf(this.world, Math.floor(Date.now() / 1000) * 1000));
  }

  advance(pool) {
    const { rebuild, scrub } = pool;
    if (rebuild) {
      rebuild.done_bytes = Math.min(rebuild.total_bytes, rebuild.done_bytes + 2 ** 31);
      rebuild.elapsed_millis += 1000;
      rebuild.remaining_millis = Math.ceil((rebuild.total_bytes - rebuild.done_bytes) / 2 ** 31) * 1000;
      if (rebuild.done_bytes === rebuild.total_bytes) {
        const drive = pool.drives.find((one) => one.number === rebuild.drive_number);
        Object.assign(drive, { state: 'online', reason: null });
        Object.assign(pool, { rebuild: null, state: 'online', reason: null });
        this.say('info', `pool ${pool.name}`, `drive ${drive.number} is rebuilt`);
      }
    }
    if (scrub && !scrub.is_paused) {
      scrub.done_segment_count = Math.min(scrub.total_segment_count, scrub.done_segment_count + 200);
      scrub.elapsed_millis += 1000;
      if (scrub.done_segment_count === scrub.total_segment_count) delete pool.scrub;
    }
  }

  endStreams() {
    for (const stream of this.streams) stream.destroy();
    this.streams.clear();
  }

  /// The stream breaks and cannot be opened, until it is mended.
  breakLive() {
    this.isLiveBroken = true;
    this.endStreams();
  }

  mendLive() {
    this.isLiveBroken = false;
  }

  endSessions() {
    this.tokens.clear();
    this.endStreams();
  }

  /// As after a restart of the array: another boot id, streams end.
  restart() {
    this.world.bootId = `${this.world.bootId}-again`;
    this.endStreams();
  }

  async answer(request, response) {
    const url = new URL(request.url, this.origin);
    this.requests.push(`${request.method} ${url.pathname}`);
    try {
      if (url.pathname.startsWith('/v1/')) await this.api(request, response, url);
      else if (url.pathname === '/healthz') response.end('ok');
      else if (url.pathname === '/readyz') response.end('ready');
      else await this.file(response, url.pathname);
    } catch (thrown) {
      const failed = () => new Refusal(503, 'closed', `the mock failed: ${thrown.stack}`, 'mend it');
      const { status, body } = thrown instanceof Refusal ? thrown : failed();
      if (url.pathname.startsWith('/v1/')) this.exchanges.push({ method: request.method, url, status, answer: body });
      if (!response.headersSent) this.json(response, status, body);
    }
  }

  json(response, status, body) {
    const text = body === undefined ? '' : JSON.stringify(body);
    const type = status >= 400 ? 'application/problem+json' : 'application/json';
    response.writeHead(status, { 'Content-Type': type, 'Cache-Control': 'no-store' });
    response.end(text);
  }

  async file(response, path) {
    if (!path.startsWith('/console')) {
      response.writeHead(302, { Location: '/console/' });
      return response.end();
    }
    const name = path.slice('/console/'.length);
    const isFile = /^(app\.(js|css)|favicon\.svg|index\.html)$/.test(name);
    const file = join(DIST, isFile ? name : 'index.html');
    response.writeHead(200, {
      'Content-Type': TYPES[extname(file)],
      'Content-Security-Policy': POLICY,
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'no-cache',
    });
    return response.end(await readFile(file));
  }

  async api(request, response, url) {
    const body = await bodyOf(request);
    if (url.pathname === '/v1/console-sessions') return this.enter(response, body);
    if (url.pathname === '/v1/sessions') return this.logIn(response, body);
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (!this.tokens.has(token)) {
      throw new Refusal(401, 'unauthorized', 'the session is over', 'run `ashlar console` again');
    }
    if (url.pathname === '/v1/live') return this.live(request, response);
    if (url.pathname === '/v1/session' && request.method === 'DELETE') {
      this.tokens.delete(token);
      return this.json(response, 204);
    }
    if (url.pathname === '/v1/latencies') {
      return this.json(response, 200, latenciesOf(this.world, url.searchParams.get('object'), url.searchParams.get('range')));
    }
    if (url.pathname === '/v1/history') {
      return this.json(response, 200, historyOf(this.world, url.searchParams.get('object'), url.searchParams.get('range')));
    }
    const query = Object.fromEntries(url.searchParams);
    for (const route of routes) {
      const match = route.method === request.method && route.pattern.exec(url.pathname);
      if (!match) continue;
      const path = Object.fromEntries(route.names.map((name, index) => [name, decodeURIComponent(match[index + 1])]));
      const answer = await route.run(this.world, { path, query, body });
      const kept = { method: request.method, template: route.template, url, query, body };
      // A copy: the world goes on, and the answer is checked later.
      if (this.exchanges.length < 500) this.exchanges.push({ ...kept, status: answer.status, answer: answer.body && structuredClone(answer.body) });
      return this.json(response, answer.status, answer.body);
    }
    throw new Refusal(404, 'not-found', `the mock does not know ${request.method} ${url.pathname}`, 'teach it');
  }

  enter(response, body) {
    if (body?.ticket !== TICKET) {
      throw new Refusal(401, 'unauthorized', 'the ticket is used up, wrong or older than a minute', 'run `ashlar console` again');
    }
    const token = `token-${Math.random().toString(36).slice(2)}`;
    this.tokens.add(token);
    this.json(response, 201, { token, expires_seconds: 43_200 });
  }

  logIn(response, { user: name, password }) {
    const user = this.world.users.find((one) => one.name === name);
    if (!user || user.is_disabled || password !== PASSWORD) throw wrongLogin();
    const token = `token-${Math.random().toString(36).slice(2)}`;
    this.tokens.add(token);
    this.world.me = { caller: 'person', role: user.role, user: name };
    this.json(response, 201, { token, user: name, role: user.role, expires_seconds: 43_200 });
  }

  live(request, response) {
    if (this.isLiveBroken) return response.destroy();
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    const hello = { boot_id: this.world.bootId, interval_millis: 1000, version: '0.1.0' };
    response.write(`: keep-alive\n\nevent: hello\ndata: ${JSON.stringify(hello)}\n\n`);
    const [boot, sequence] = String(request.headers['last-event-id'] ?? '').split(':');
    for (const event of this.world.events) {
      if (boot !== this.world.bootId || event.sequence <= Number(sequence)) continue;
      response.write(`event: event\nid: ${boot}:${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    const figures = figuresOf(this.world, Math.floor(Date.now() / 1000) * 1000);
    response.write(`event: figures\ndata: ${JSON.stringify(figures)}\n\n`);
    this.streams.add(response);
    request.on('close', () => this.streams.delete(response));
    return undefined;
  }
}

export function startMock(options = {}) {
  return new Mock(options).listen(options.port);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const value = (name, other) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? other : Number(process.argv[at + 1]);
  };
  const options = { port: value('port', 4173), volumeCount: value('volumes', 40), isEmpty: process.argv.includes('--empty') };
  const mock = await startMock(options);
  console.log(mock.address());
}
