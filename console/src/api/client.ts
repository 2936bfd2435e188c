// One typed function for each method of the API: paths, parameters, bodies and answers come from the schema.
import type { paths } from '../../generated/schema';
import { ApiError, errorOf, unreachable } from './error';
import { authorization, endSession } from './session';

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
export type PathsOf<M extends Method> = {
  [P in keyof paths]: [Operation<P, M>] extends [never] ? never : P;
}[keyof paths];

type PathPart<O> = O extends { parameters: { path: infer X } } ? { path: X } : { path?: undefined };
type QueryPart<O> = O extends { parameters: { query?: infer X } } ? { query?: X } : { query?: undefined };
type BodyPart<O> = O extends { requestBody: { content: { 'application/json': infer X } } }
  ? { body: X }
  : O extends { requestBody?: { content: { 'application/json': infer X } } }
    ? { body?: X }
    : { body?: undefined };
export type Options<O> = PathPart<O> & QueryPart<O> & BodyPart<O>;
type Json<X> = X extends { content: { 'application/json': infer J } } ? J : undefined;
type Success = 200 | 201 | 204;
/// What long work answers as a job (202) is not asked for, except where there is nothing else.
type Statuses<R> = [keyof R & Success] extends [never] ? keyof R & 202 : keyof R & Success;
type AnswerOf<O> = O extends { responses: infer R } ? Json<R[Statuses<R>]> : never;
export type Got<P extends PathsOf<'get'>> = AnswerOf<Operation<P, 'get'>>;
export type Arguments<P extends keyof paths, M extends Method> =
  Record<string, never> extends Options<Operation<P, M>>
    ? [options?: Options<Operation<P, M>>]
    : [options: Options<Operation<P, M>>];

interface Loose {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
}

/// The address of a path with its parameters filled in.
export function addressOf(path: string, options: Loose = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(options.path?.[name] ?? '')),
  );
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${filled}?${text}` : filled;
}

/// The text of an answer. Ends the session where the array does not know us any more.
export async function request(method: string, address: string, body?: unknown): Promise<string> {
  const headers: Record<string, string> = { Accept: 'application/json, application/problem+json', ...authorization() };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let answer: Response;
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    answer = await fetch(address, { method, headers, body: text, cache: 'no-store' });
  } catch {
    throw unreachable();
  }
  if (!answer.ok) {
    const error = await errorOf(answer);
    // A wrong password where one is asked for says nothing of the session.
    if (error.status === 401 && error.reason !== 'wrong-login') endSession();
    throw error;
  }
  try {
    return await answer.text();
  } catch {
    throw unreachable();
  }
}

async function call<P extends keyof paths, M extends Method>(
  method: M,
  path: P,
  options: Loose | undefined,
): Promise<AnswerOf<Operation<P, M>>> {
  const text = await request(method.toUpperCase(), addressOf(path, options), options?.body);
  if (text === '') return undefined as AnswerOf<Operation<P, M>>;
  try {
    return JSON.parse(text) as AnswerOf<Operation<P, M>>;
  } catch {
    throw new ApiError(200, 'unknown', 'The array answered what is no JSON.', 'Reload the page.');
  }
}

type Caller<M extends Method> = <P extends PathsOf<M>>(
  path: P,
  ...rest: Arguments<P, M>
) => Promise<AnswerOf<Operation<P, M>>>;

function caller<M extends Method>(method: M): Caller<M> {
  // All operations at once are a type that the compiler does not work out: callers have that of their own.
  const anyOf = (path: keyof paths, options?: Loose) => call(method, path, options);
  return anyOf as unknown as Caller<M>;
}

export const api = {
  get: caller('get'),
  post: caller('post'),
  put: caller('put'),
  patch: caller('patch'),
  delete: caller('delete'),
};
