// Checks what was asked of an API and what it answered against docs/reference/openapi.json.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Ajv2020 from 'ajv/dist/2020.js';

const place = join(dirname(fileURLToPath(import.meta.url)), '../../../docs/reference/openapi.json');
export const description = JSON.parse(readFileSync(place, 'utf8'));

/// Objects have the fields that are described, and no others: a slip of the pen is found.
function closed(schema) {
  if (Array.isArray(schema)) return schema.map(closed);
  if (schema === null || typeof schema !== 'object') return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  const isObject = copy.properties && !copy.allOf && copy.additionalProperties === undefined;
  return isObject && typeof copy.properties === 'object' ? { ...copy, additionalProperties: false } : copy;
}

const ajv = new Ajv2020({ strict: false, allErrors: true });
for (const name of ['int32', 'int64', 'double', 'float', 'uint64', 'uint32']) ajv.addFormat(name, true);
const schemas = closed(description.components.schemas);
ajv.addSchema({ $id: 'api', components: { schemas } });
const compiled = new Map();

function check(schema, value) {
  const key = JSON.stringify(schema);
  if (!compiled.has(key)) {
    compiled.set(key, ajv.compile(JSON.parse(key.replaceAll('"#/components', '"api#/components'))));
  }
  const validate = compiled.get(key);
  return validate(value) ? null : ajv.errorsText(validate.errors);
}

const jsonOf = (part) => part?.content?.['application/json']?.schema;
const resolved = (part) => (part?.$ref ? part.$ref.split('/').slice(1).reduce((at, name) => at[name], description) : part);

/// What is wrong with one exchange, as lines; none: all is as described.
export function faults({ method, template, url, query = {}, body, status, answer }) {
  const what = `${method} ${url.pathname} ${status}`;
  if (status >= 400) {
    const wrong = check({ $ref: '#/components/schemas/Problem' }, answer);
    return wrong ? [`${what}: ${wrong}`] : [];
  }
  const item = description.paths[template];
  const operation = item?.[method.toLowerCase()];
  if (!operation) return [`${what}: not described`];
  const lines = [];
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
  const known = parameters.filter((one) => one.in === 'query').map((one) => one.name);
  for (const name of Object.keys(query)) if (!known.includes(name)) lines.push(`${what}: query ${name} is not described`);
  const request = jsonOf(resolved(operation.requestBody));
  if (body !== undefined && !request) lines.push(`${what}: a body is not described`);
  else if (request && (body !== undefined || operation.requestBody.required)) {
    const wrong = check(request, body ?? null);
    if (wrong) lines.push(`${what}: body ${JSON.stringify(body)}: ${wrong}`);
  }
  const response = resolved(operation.responses[String(status)]);
  if (!response) return [...lines, `${what}: the status is not described`];
  const schema = jsonOf(response);
  if (schema) {
    const wrong = check(schema, answer);
    if (wrong) lines.push(`${what}: answer: ${wrong}`);
  }
  return lines;
}
