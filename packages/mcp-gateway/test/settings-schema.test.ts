import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

import { settingsSchema } from './settings-schema.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const SCHEMA = here('../gateway.schema.json')

test('the schema for editors is generated from that of the settings', async () => {
  const page = await readFile(here('../../../docs/reference/settings.md'), 'utf8')
  await expect(await settingsSchema(page)).toMatchFileSnapshot(SCHEMA)
})

/** Mistakes that an editor marks. */
async function mistakesIn(yaml: string): Promise<readonly string[]> {
  const ajv = new Ajv2020({ allErrors: true, strict: false, validateFormats: false })
  const isValid = ajv.compile(JSON.parse(await readFile(SCHEMA, 'utf8')))
  isValid(parse(yaml))
  return (isValid.errors ?? []).map(({ instancePath }) => instancePath)
}

test.each([
  '../first-graph/gateway.yaml',
  '../../../examples/gateway-cluster/gateway.yaml',
  '../../../examples/gateway-docker/gateway.yaml',
  '../../../examples/gateway-keycloak/gateway.yaml',
])('an editor finds nothing wrong in %s', async (path) => {
  expect(await mistakesIn(await readFile(here(path), 'utf8'))).toEqual([])
})

test.each([
  'http: { port: 8000 }',
  "http: { port: '${PORT:-8000}' }",
  'http:\n  # port: 8000',
  'store: { dir: ./data }',
])('an editor accepts %s', async (yaml) => {
  expect(await mistakesIn(yaml)).toEqual([])
})

test.each([
  ['http: { prot: 8000 }', '/http'],
  ['http: { port: many }', '/http/port'],
  ['log: { level: loud }', '/log/level'],
  ['sources: [{ type: langgraph }]', '/sources/0'],
  ['htpp: {}', ''],
])('an editor marks the mistake in %s', async (yaml, place) => {
  expect(await mistakesIn(yaml)).toContain(place)
})
