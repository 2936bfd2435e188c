// Writes generated/schema.ts from the array's OpenAPI description: types alone, nothing of them is in the page.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import openapiTypescript, { astToString } from 'openapi-typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const description = join(root, '..', 'docs', 'reference', 'openapi.json');
const folder = join(root, 'generated');
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, 'schema.ts'), astToString(await openapiTypescript(pathToFileURL(description))));
