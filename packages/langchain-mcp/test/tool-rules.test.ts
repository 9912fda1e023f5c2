import { expect, test } from 'vitest'
import { loadMcpTools, type LoadMcpToolsOptions, type McpToolSource } from '../src/index.ts'
import { namesOf } from './listed-tools.ts'

const source: McpToolSource = {
  listTools: () =>
    Promise.resolve([
      { name: 'delete all', annotations: { destructiveHint: true } },
      { name: 'read', annotations: { readOnlyHint: true } },
      { name: 'list' },
    ]),
  callTool: () => Promise.resolve({}),
}

test.each<[what: string, allow: LoadMcpToolsOptions['allow'], offered: readonly string[]]>([
  ['no rule', undefined, ['delete_all', 'read', 'list']],
  ['names on the server', ['delete all', 'list', 'unknown'], ['delete_all', 'list']],
  ['an empty list', [], []],
  [
    'a function of the name',
    ({ origin }) => !origin.toolName.startsWith('delete'),
    ['read', 'list'],
  ],
  ['a function of the server', ({ origin }) => origin.server.name === 'bank', []],
  [
    'a function of the definition',
    (tool) => tool.definition.annotations?.readOnlyHint === true,
    ['read'],
  ],
])('allow selects tools by %s', async (_, allow, offered) => {
  expect(namesOf(await loadMcpTools(source, { server: { name: 'shop' }, allow }))).toEqual(offered)
})

test('prefixToolNames puts the name of the server before each name', async () => {
  const tools = await loadMcpTools(source, { server: { name: 'shop' }, prefixToolNames: true })
  expect(namesOf(tools)).toEqual(['shop_delete_all', 'shop_read', 'shop_list'])
})
