import { expect, test } from 'vitest'
import type { ToolLog, ToolLogEntry } from '../log.ts'
import { nameTools } from './tool-names.ts'

/** Names tools that are given as `server tool`. */
function names(tools: readonly string[], hasPrefix = false, log: ToolLog = () => {}): string[] {
  const origins = tools.map((tool) => {
    const [, folderPath = 'Shared', slug = '', toolName = ''] =
      /^(?:(\w+)\/)?(\w+) (.*)$/s.exec(tool) ?? []
    return { server: { slug, folderPath }, toolName }
  })
  return nameTools(origins, hasPrefix, log)
}

test.each([
  ['add_item', 'add_item'],
  ['add item', 'add_item'],
  ['add \t\n item', 'add_item'],
  ['get-Item_2', 'get-Item_2'],
  ['files/read.v2', 'filesreadv2'],
  ['größe', 'gre'],
  ['21st_magic', 'tool_21st_magic'],
  ['_private', 'tool__private'],
  ['-x', 'tool_-x'],
])('names the tool %j for the model %j', (raw, shown) => {
  expect(names([`shop ${raw}`])).toEqual([shown])
})

test('keeps 64 characters, and cuts 65 with a hash at the end', () => {
  const [exact] = names([`shop ${'a'.repeat(64)}`])
  const [cut] = names([`shop ${'a'.repeat(65)}`])
  expect(exact).toBe('a'.repeat(64))
  expect(cut).toMatch(/^a{55}_[0-9a-f]{8}$/)
})

test('begins with a letter within the limit, also after the name of a server', () => {
  const [cut] = names([`shop 1${'a'.repeat(63)}`])
  expect(cut).toMatch(/^tool_1a{49}_[0-9a-f]{8}$/)
  expect(names(['12306 query'], true)).toEqual(['tool_12306_query'])
  expect(names(['shop tool_1', 'bank 1'])).toEqual([
    'tool_1',
    expect.stringMatching(/^tool_1_[0-9a-f]{8}$/),
  ])
})

test('keeps long names apart that differ only at the end', () => {
  const long = 'x'.repeat(80)
  const [one, two] = names([`shop ${long}1`, `shop ${long}2`])
  expect(one).not.toBe(two)
})

test.each(['', '   .', '工具', '!!!'])(
  'uses a hash for %j, which has no allowed character',
  (raw) => {
    const [name] = names([`shop ${raw}`])
    expect(name).toMatch(/^tool_(?:[0-9a-f]{8}|_)$/)
  },
)

test('gives different hashes to names without any allowed character', () => {
  const [one, two] = names(['shop 工具', 'shop 道具'])
  expect(one).toMatch(/^tool_[0-9a-f]{8}$/)
  expect(one).not.toBe(two)
})

test('keeps the plain name for the first server, and adds a suffix for the later one, with a warning', () => {
  const entries: ToolLogEntry[] = []
  const shown = names(['shop search', 'bank search'], false, (entry) => void entries.push(entry))
  expect(shown).toEqual(['search', expect.stringMatching(/^search_[0-9a-f]{8}$/)])
  expect(entries).toEqual([
    expect.objectContaining({ code: 'NAME_COLLISION', server: 'bank', tool: 'search' }),
  ])
  expect(entries[0]?.message).toBe(
    `Renamed 1 of the tools of MCP server "bank", because server "shop" has tools of the same name: "search" is now "${shown[1]}". Set prefixToolNames`,
  )
})

test('warns once for each two servers, with the number of the tools and three of their names', () => {
  const entries: ToolLogEntry[] = []
  const tools = ['shop', 'bank', 'mail'].flatMap((server) =>
    Array.from({ length: 20 }, (_, at) => `${server} do_${at}`),
  )
  const shown = names([...tools, 'post do_0'], false, (entry) => void entries.push(entry))
  expect(entries.map(({ server, tool }) => [server, tool])).toEqual([
    ['bank', undefined],
    ['mail', undefined],
    ['post', 'do_0'],
  ])
  const examples = [0, 1, 2].map((at) => `"do_${at}" is now "${shown[20 + at]}"`).join(', ')
  expect(entries[0]?.message).toContain(`Renamed 20 of the tools of MCP server "bank"`)
  expect(entries[0]?.message).toContain(`: ${examples}, and 17 more. Set prefixToolNames`)
})

test.each([
  ['that one server has twice', ['shop run', 'shop run'], false],
  ['of servers with one name', ['A/shop run', 'B/shop run'], true],
])('does not advise a prefix for names %s', (_title, tools, hasPrefix) => {
  const entries: ToolLogEntry[] = []
  names(tools, hasPrefix, (entry) => void entries.push(entry))
  expect(entries).toHaveLength(1)
  expect(entries[0]?.message).not.toContain('prefixToolNames')
})

test('keeps names apart that become equal when characters are removed', () => {
  const shown = names(['shop a.b', 'shop ab', 'shop a b', 'shop a_b'])
  expect(new Set(shown).size).toBe(4)
  expect(shown[0]).toBe('ab')
  expect(shown[2]).toBe('a_b')
})

test('keeps apart the same tool three times, and a plain name that looks like a suffix', () => {
  const [, suffixed = ''] = names(['shop run', 'shop run'])
  const shown = names([`shop ${suffixed}`, 'shop run', 'shop run', 'shop run'])
  expect(new Set(shown).size).toBe(4)
})

test('depends only on the tools, so a stored conversation fits the next process', () => {
  const tools = ['shop search', 'bank search', 'bank 工具'] as const
  expect(names(tools)).toEqual(names(tools))
  expect(names(tools)).toMatchInlineSnapshot(`
    [
      "search",
      "search_e1446321",
      "tool_fefa65bd",
    ]
  `)
})

test('treats one server in two folders as two', () => {
  const [, one] = names(['shop x', 'A/shop x'])
  const [, two] = names(['shop x', 'B/shop x'])
  expect(one).not.toBe(two)
})

test('puts a prefix per server before every name, within the limit', () => {
  const tools = ['shop search', 'bank search', 'bank 工具', `bank ${'x'.repeat(62)}`] as const
  expect(names(tools, true)).toEqual([
    'shop_search',
    'bank_search',
    expect.stringMatching(/^bank_tool_[0-9a-f]{8}$/),
    expect.stringMatching(/^bank_x{50}_[0-9a-f]{8}$/),
  ])
})

test('makes the same name beside any other tools', () => {
  const long = 'x'.repeat(80)
  const [alone] = names([`bank ${long}`])
  const [, beside] = names([`shop ${long}`, `bank ${long}`])
  expect(beside).toBe(alone)
  const [, second] = names(['shop search', 'bank search'])
  const [, , third] = names(['shop search', 'shop other', 'bank search'])
  expect(third).toBe(second)
})
