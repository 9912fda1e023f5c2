import { expect, test, vi } from 'vitest'

import { configFolder } from '../../../test/config-folder.ts'
import { applyEnv, runDefaults, warnOfUnused } from './config-keys.ts'

function listener() {
  const warnings: string[] = []
  return { warnings, warn: (message: string) => void warnings.push(message) }
}

/** Variables that are not set, and are forgotten after the test. */
function unset(...names: readonly string[]): void {
  for (const name of names) vi.stubEnv(name, undefined)
}

test('reads the variables of a file beside the configuration, and leaves those that are set', async () => {
  await using folder = await configFolder()
  await folder.file('.env', 'LG_NEW="a b" # a comment\nexport LG_SET=file\nLG_EMPTY=file\n')
  unset('LG_NEW')
  vi.stubEnv('LG_SET', 'operator')
  vi.stubEnv('LG_EMPTY', '')
  const { warn, warnings } = listener()
  await applyEnv(`${folder.path}/langgraph.json`, '.env', warn)
  expect(warnings).toEqual([])
  const { LG_EMPTY, LG_NEW, LG_SET } = process.env
  expect({ LG_EMPTY, LG_NEW, LG_SET }).toEqual({ LG_EMPTY: '', LG_NEW: 'a b', LG_SET: 'operator' })
})

test('reads the first variable of a file that Windows has written', async () => {
  await using folder = await configFolder()
  await folder.file('.env', '\uFEFFLG_FIRST=a\r\nLG_LAST=b\r\n')
  unset('LG_FIRST', 'LG_LAST')
  await applyEnv(`${folder.path}/langgraph.json`, '.env', listener().warn)
  expect(process.env).toMatchObject({ LG_FIRST: 'a', LG_LAST: 'b' })
})

test('sets the variables of an object', async () => {
  unset('LG_TEXT', 'LG_NUMBER')
  const { warn, warnings } = listener()
  await applyEnv('/a/langgraph.json', { LG_TEXT: 'x', LG_NUMBER: 7 }, warn)
  expect(warnings).toEqual([])
  expect(process.env).toMatchObject({ LG_TEXT: 'x', LG_NUMBER: '7' })
})

test('names the variables of a list that are not set', async () => {
  unset('LG_MISSING')
  vi.stubEnv('LG_THERE', 'x')
  const { warn, warnings } = listener()
  await applyEnv('/a/langgraph.json', ['LG_MISSING', 'LG_THERE'], warn)
  expect(warnings).toEqual(['env in langgraph.json needs variables that are not set: LG_MISSING'])
})

test('warns of two configurations that want different values, without the values', async () => {
  unset('LG_SHARED', 'LG_SAME')
  const { warn, warnings } = listener()
  await applyEnv('/a/langgraph.json', { LG_SHARED: 'secret-1', LG_SAME: 'x' }, warn)
  await applyEnv('/b/langgraph.json', { LG_SHARED: 'secret-2', LG_SAME: 'x' }, warn)
  expect(warnings).toEqual([
    'env in /b/langgraph.json: LG_SHARED keeps the value that /a/langgraph.json gave it',
  ])
})

test.each([[undefined], [''], [{}], [[]]])('takes %j for no variables', async (env) => {
  const { warn, warnings } = listener()
  await applyEnv('/a/langgraph.json', env, warn)
  expect(warnings).toEqual([])
})

test.each([
  ['nowhere.env', /nowhere\.env does not exist: continuing without it/],
  [7, /^Not used in langgraph\.json: env\./],
])('continues without the variables of %j', async (env, warning) => {
  const { warn, warnings } = listener()
  await applyEnv('/a/langgraph.json', env, warn)
  expect(warnings).toEqual([expect.stringMatching(warning)])
})

test.each([
  [{ node_version: '20', dependencies: ['.'], graphs: {}, env: '.env', $schema: 'x' }, []],
  [{ dockerfile_lines: [], ui: {}, auth: null, node_loader: 'tsx' }, []],
  [{ dockerfile_lines: ['RUN x'], api_version: '0.2' }, [/dockerfile_lines, api_version\. The/]],
  [{ http: { app: './a.ts:app' } }, [/: http\. .*set "http" of the gateway/]],
  [{ auth: { path: './a.ts:auth' } }, [/: auth\. .*set "auth" of the gateway/]],
  [{ store: { index: { dims: 3 } } }, [/: store\./]],
  [{ ui: { a: './a.tsx' }, ui_config: { shared: ['a'] } }, [/: ui\./, /: ui_config\./]],
  [{ node_loader: 'ts-node' }, [/: node_loader\./]],
  [{ graps: { a: 'b' } }, [/: graps\. The gateway does not know it/]],
  [{ dependencies: ['.', './lib', 'openai'] }, [/: dependencies\. .*: openai$/]],
  [{ node_version: '99' }, [/^node_version in langgraph\.json is 99, and this is Node/]],
])('warns of the keys of %j that are not used', (config, expected) => {
  const { warn, warnings } = listener()
  warnOfUnused('/a/langgraph.json', config, warn)
  expect(warnings).toEqual(expected.map((each) => expect.stringMatching(each)))
})

test('reads the defaults of runs from LANGGRAPH_CONFIG', () => {
  const { warn, warnings } = listener()
  const config = { a: { configurable: { model: 'm' }, context: { user: 'u' }, recursion_limit: 5 } }
  vi.stubEnv('LANGGRAPH_CONFIG', JSON.stringify(config))
  expect(runDefaults(warn).get('a')).toEqual({
    configurable: { model: 'm' },
    context: { user: 'u' },
    recursionLimit: 5,
  })
  vi.stubEnv('LANGGRAPH_CONFIG', '{ "a": secret-3')
  expect(runDefaults(warn).size).toBe(0)
  expect(warnings).toEqual([expect.not.stringContaining('secret-3')])
})
