// What the mock refuses, as the array does.

/// What a problem's kind is called by people.
const TITLES = {
  invalid: 'The request is wrong',
  unauthorized: 'No token, or not the right one',
  'not-found': 'There is no such object',
  forbidden: 'Not for this caller',
  exists: 'The name or the drive is taken',
  busy: 'The object is in use',
  closed: 'The array or the pool does not serve',
};

export class Refusal extends Error {
  constructor(status, kind, detail, action, reason) {
    super(detail);
    this.status = status;
    const type = `/docs/reference/errors.md#${kind}`;
    this.body = { type, title: TITLES[kind], status, detail, kind, remedy: { command: action, request: action } };
    if (reason) this.body.reason = reason;
  }
}

/// The one of this name.
export function found(list, name, what) {
  const one = list.find((item) => item.name === name);
  if (!one) throw missing(what, name);
  return one;
}

export const missing = (what, name) =>
  new Refusal(404, 'not-found', `there is no ${what} ${name}`, `see \`ashlar ${what} list\``);
export const busy = (message, action) => new Refusal(409, 'busy', message, action);
