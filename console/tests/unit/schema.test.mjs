// The mock answers every GET that the console asks, in the words of docs/reference/openapi.json.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routes } from '../../mock/routes.mjs';
import { startMock, TICKET } from '../../mock/server.mjs';
import { description, faults } from '../schema/openapi.mjs';

const NAMES = { pool: 'main', volume: 'docs', database: 'prod', snapshot: 'before-upgrade', schedule: 'prod', result: 'emc', job: '5f0c2a91-1' };

async function enter(mock) {
  const body = JSON.stringify({ ticket: TICKET });
  const answer = await fetch(`${mock.origin}/v1/console-sessions`, { method: 'POST', body });
  return (await answer.json()).token;
}

test('every route of the mock is described', () => {
  const missing = routes.filter(({ method, template }) => !description.paths[template]?.[method.toLowerCase()]);
  assert.deepEqual(missing, []);
});

for (const options of [{}, { isEmpty: true }, { volumeCount: 10_000 }]) {
  test(`every GET answers as described, ${JSON.stringify(options)}`, async (context) => {
    const mock = await startMock(options);
    context.after(() => mock.close());
    const headers = { Authorization: `Bearer ${await enter(mock)}` };
    for (const { method, template } of routes) {
      if (method !== 'GET') continue;
      if (options.isEmpty && template.includes('{')) continue;
      const path = template.replace(/\{(\w+)\}/g, (_, name) => NAMES[name]);
      await (await fetch(mock.origin + path, { headers })).text();
    }
    assert.ok(mock.exchanges.length >= (options.isEmpty ? 10 : 15));
    assert.deepEqual(mock.exchanges.flatMap(faults), []);
  });
}

test('a wrong answer is found', () => {
  const url = new URL('http://x/v1/volumes');
  const exchange = { method: 'GET', template: '/v1/volumes', url, status: 200 };
  assert.notDeepEqual(faults({ ...exchange, answer: [{ name: 1 }] }), []);
  assert.notDeepEqual(faults({ ...exchange, answer: [], query: { colour: 'red' } }), []);
  assert.deepEqual(faults({ ...exchange, answer: [] }), []);
});

test('who is not signed in is refused as described', async (context) => {
  const mock = await startMock();
  context.after(() => mock.close());
  const answer = await fetch(`${mock.origin}/v1/volumes`);
  assert.equal(answer.status, 401);
  assert.deepEqual(mock.exchanges.flatMap(faults), []);
});
