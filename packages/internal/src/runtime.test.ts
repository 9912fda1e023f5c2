import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

import { assertRuntime, runtimeProblem } from './index.ts'

test.each(['18.20.8', '20.20.2', '22.18.9', '9.0.0'])('refuses Node.js %s', (version) => {
  expect(runtimeProblem('@x/sample', version)).toContain(
    `@x/sample needs Node.js 22.19 or newer, but this is Node.js ${version}. Install`,
  )
})

test.each(['22.19.0', '22.20.1', '23.0.0', '24.21.0', '100.0.0'])(
  'accepts Node.js %s',
  (version) => {
    expect(runtimeProblem('@x/sample', version)).toBeUndefined()
  },
)

test('accepts the Node.js that runs the tests', () => {
  expect(() => assertRuntime('@x/sample')).not.toThrow()
})

test.each([
  ['mcp-transport', ['index', 'auth/index']],
  ['mcp-client', ['index', 'skills']],
  [
    'langchain-mcp',
    ['index', 'fan-out-tool-calls', 'middleware', 'prompts', 'resources', 'skills'],
  ],
  ['agents-debugstate', ['index', 'server/index', 'cli/main']],
  ['mcp-gateway', ['index', 'adapter', 'cli/main']],
  ['mcp-gateway-a2a', ['index']],
  ['mcp-gateway-oauth', ['index']],
  ['mcp-gateway-redis', ['index']],
])('each entry of %s checks the runtime before it imports anything else', async (name, entries) => {
  const folder = new URL(`../../${name}/`, import.meta.url)
  const {
    engines,
    exports,
    bin = {},
  } = JSON.parse(await readFile(new URL('package.json', folder), 'utf8'))
  expect(engines.node).toBe('>=22.19')
  const paths = [
    ...Object.keys(exports).filter((one) => !one.endsWith('.json')),
    ...Object.keys(bin),
  ]
  expect(entries).toHaveLength(paths.length)
  for (const entry of entries) {
    const text = await readFile(new URL(`src/${entry}.ts`, folder), 'utf8')
    const [first] = /^(?:import|export) .*$/m.exec(text) ?? []
    expect(first).toMatch(/^import '(?:\.\/|(?:\.\.\/)+)runtime-check\.ts'/)
  }
})
