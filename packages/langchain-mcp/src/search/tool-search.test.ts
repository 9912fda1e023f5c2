import { AIMessage, HumanMessage, ToolMessage, type BaseMessage } from '@langchain/core/messages'
import { describe, expect, test } from 'vitest'
import { AnsweringSource, toolFrom } from '../../test/answering-source.ts'
import type { ToolLogEntry } from '../log.ts'
import type { McpTool } from '../tools/mcp-tool.ts'
import { deferTools, ToolSearch, type ToolSearchOptions } from './tool-search.ts'

const source = new AnsweringSource()

function toolsOf(...names: readonly string[]): McpTool[] {
  return names.map((name) =>
    toolFrom({
      source,
      name,
      definition: { name, description: `Does ${name}.`, inputSchema: { type: 'object' } },
      server: { name: 'shop' },
    }),
  )
}

const abc = toolsOf('add_item', 'buy_cart', 'close_shop')

function shown(
  search: ToolSearch,
  messages: readonly BaseMessage[] = [],
  taken?: string[],
): string[] {
  return search.shownFor(messages, taken).map(({ name }) => name)
}

function called(...names: readonly string[]): AIMessage {
  const calls = names.map((name) => ({ type: 'tool_call' as const, id: name, name, args: {} }))
  return new AIMessage({ content: '', tool_calls: calls })
}

/** Calls the search as a model does, and returns the message with its answer. */
async function searched(search: ToolSearch, query: string): Promise<ToolMessage> {
  const call = { type: 'tool_call' as const, id: 'call-1', name: 'search_tools', args: { query } }
  const message: unknown = await search.find('search_tools')?.invoke(call)
  if (!(message instanceof ToolMessage)) throw new Error('There is no message')
  return message
}

describe('a search is active', () => {
  const many = (count: number) =>
    toolsOf(...Array.from({ length: count }, (_, index) => `tool_${index}`))

  test.each([
    [40, {}, false],
    [41, {}, true],
    [41, { search: 'auto' }, true],
    [41, { search: false }, false],
    [41, { search: 'provider' }, false],
    [1, { search: true }, true],
    [0, { search: true }, false],
    [3, { budget: { tools: 2 } }, true],
    [3, { budget: { tools: 3 } }, false],
    [3, { budget: { bytes: 100 } }, true],
    [3, { budget: { bytes: 10_000 } }, false],
    [41, { budget: { tools: undefined, bytes: undefined } }, true],
  ] satisfies [number, ToolSearchOptions, boolean][])(
    'with %i tools and %j: %s',
    (count, options, expected) => {
      const search = new ToolSearch(many(count), options)
      expect(search.isActive).toBe(expected)
      expect(shown(search)).toHaveLength(expected ? 1 : count)
      expect(search.registered).toHaveLength(expected ? count + 1 : count)
    },
  )
})

describe('the model sees', () => {
  const search = new ToolSearch(abc, { search: true, alwaysShow: ['buy_cart'] })

  test('the tools of `alwaysShow`, the search, and then what it found or called, in this order', async () => {
    expect(shown(search)).toEqual(['buy_cart', 'search_tools'])
    const messages = [
      new HumanMessage('close'),
      called('search_tools'),
      await searched(search, 'close_shop'),
    ]
    expect(shown(search, messages)).toEqual(['buy_cart', 'search_tools', 'close_shop'])
    const later = [...messages, called('add_item', 'buy_cart', 'unknown')]
    expect(shown(search, later)).toEqual(['buy_cart', 'search_tools', 'close_shop', 'add_item'])
  })

  test('no tool that is gone', async () => {
    const messages = [await searched(search, 'close_shop'), await searched(search, 'add_item')]
    const fewer = new ToolSearch(abc.slice(0, 2), { search: true, alwaysShow: ['buy_cart'] })
    expect(shown(fewer, messages)).toEqual(['buy_cart', 'search_tools', 'add_item'])
  })

  test('tools of messages without classes, as a remote graph has them', () => {
    const artifact = { foundTools: ['close_shop', 5, null, '__proto__'] }
    const messages = [{ content: '', artifact }, { content: '', artifact: null }, { content: '' }]
    expect(search.shownFor(messages).map(({ name }) => name)).toEqual([
      'buy_cart',
      'search_tools',
      'close_shop',
    ])
  })

  test('a search of another name, if the agent or a server has a tool of this name', async () => {
    expect(shown(search, [], ['search_tools'])).toContain('search_tools_2')
    const own = new ToolSearch(toolsOf('search_tools', 'add_item'), { search: true })
    expect(shown(own)).toEqual(['search_tools_2'])
    expect(own.find('search_tools')).toBe(own.registered[0])
    expect(await own.find('search_tools_2')?.invoke({ query: 'item' })).toContain('add_item')
  })

  test('nothing that another tool of the agent hides, which is logged once', async () => {
    const log: ToolLogEntry[] = []
    const options = { search: true, alwaysShow: ['add_item'] }
    const one = new ToolSearch(abc, options, (entry) => void log.push(entry))
    const taken = ['add_item', 'buy_cart']
    const messages = [called('buy_cart')]
    expect(shown(one, messages, taken)).toEqual(['search_tools'])
    expect(shown(one, messages, taken)).toEqual(['search_tools'])
    expect(one.shownFor([], taken)[0]?.description).toContain('- shop (1 tools): close_shop')
    const found = await one.find('search_tools', taken)?.invoke({ query: 'buy_cart close_shop' })
    expect(found).toBe('You can now call:\n- close_shop (shop): Does close_shop.')
    expect(log.map(({ code, tool }) => [code, tool])).toEqual([
      ['NAME_COLLISION', 'add_item'],
      ['NAME_COLLISION', 'buy_cart'],
    ])
    expect(log[0]?.message).toContain('Set prefixToolNames')
  })

  test('all tools without a search', () => {
    const all = new ToolSearch(abc, { search: false })
    expect(shown(all, [called('close_shop')])).toEqual(['add_item', 'buy_cart', 'close_shop'])
    expect(shown(new ToolSearch(abc, {}, () => {}), [], ['buy_cart'])).not.toContain('buy_cart')
    expect(all.find('close_shop')).toBe(abc[2])
    expect(all.find('unknown')).toBeUndefined()
  })
})

test.each([
  [{ alwaysShow: ['add_items', 'fly'] }, '"add_items" (did you mean "add_item"?), "fly"'],
  [{ always: ['add_item'] }, 'there is no option "always"'],
  [{ search: 'never' }, '"search" must be'],
  [{ budget: { tool: 5 } }, 'there is no option "budget.tool"'],
])('refuses the options %j', (options, message) => {
  expect(() => Reflect.construct(ToolSearch, [abc, options])).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})

test('refuses two tools of one name, and says what to do', () => {
  const two = [...toolsOf('pay'), ...toolsOf('look', 'pay')]
  expect(() => new ToolSearch(two)).toThrow(
    expect.objectContaining({
      code: 'CONFIG',
      message: expect.stringMatching(/"pay".*"shop".*Set prefixToolNames/),
    }),
  )
})

describe('the answer of a search', () => {
  const search = new ToolSearch(abc, { search: true })

  test('has names and descriptions for the model, and only names for the state', async () => {
    const { content, artifact } = await searched(search, 'close the shop')
    expect(content).toContain('- close_shop (shop): Does close_shop.')
    expect(JSON.stringify(artifact)).toMatch(/^\{"foundTools":\["close_shop"[^{}]*\]\}$/)
  })

  test('names the servers and their tools, if nothing was found', async () => {
    const { content, artifact } = await searched(search, '')
    expect(content).toContain('- shop (3 tools): add_item, buy_cart, close_shop')
    expect(artifact).toEqual({ foundTools: [] })
  })

  test('cuts long descriptions', async () => {
    const definition = { name: 'long', description: 'long\n'.repeat(10_000) }
    const long = new ToolSearch([toolFrom({ source, name: 'long', definition })], { search: true })
    const { text } = await searched(long, 'long')
    expect(text.length).toBeLessThan(300)
  })

  test('never has half of a character', async () => {
    const definition = { name: 'pay', description: `${'a'.repeat(199)}😀 more` }
    const pay = new ToolSearch([toolFrom({ source, name: 'pay', definition })], { search: true })
    const { text } = await searched(pay, 'pay')
    expect(text.isWellFormed()).toBe(true)
    expect(text).toContain('aaa…')
  })
})

test('the description of the search has at most 8,000 characters of names, from each server', () => {
  const many = Array.from({ length: 1000 }, (_, at) => ({ server: `server${at % 2}`, at }))
  const tools = many.map(({ server, at }) =>
    toolFrom({
      source,
      server: { name: server },
      definition: { name: `tool_${at}` },
      name: `tool_${at}`,
    }),
  )
  const description = new ToolSearch(tools).registered.at(-1)?.description ?? ''
  expect(description).toContain('server0 (500 tools): tool_0, tool_2, ')
  expect(description).toContain('server1 (500 tools): tool_1, tool_3, ')
  expect(description).toContain(', …')
  expect(description.length).toBeLessThan(8500)
})

describe('with the search of the provider', () => {
  test('tools above the budget are marked, but those of `alwaysShow`', () => {
    const tools = toolsOf('add_item', 'buy_cart', 'close_shop')
    const options = { search: 'provider', alwaysShow: ['buy_cart'] } as const
    expect(deferTools(tools, options)).toEqual([])
    expect(tools.map(({ extras }) => extras)).toEqual([undefined, undefined, undefined])
    deferTools(tools, { ...options, budget: { tools: 2 } })
    const marked = { defer_loading: true }
    expect(tools.map(({ extras }) => extras)).toEqual([marked, undefined, marked])
  })

  test('tools that ChatAnthropic drops are reported, and are none with the default schemas', () => {
    const definition = {
      name: 'pay',
      inputSchema: { type: 'object', anyOf: [{ required: ['card'] }, { required: ['bank'] }] },
    }
    const options = { search: 'provider', budget: { tools: 0 } } as const
    expect(deferTools([toolFrom({ source, definition })], options)).toEqual([])
    const raw = toolFrom({ source, definition, options: { schemaFor: 'none' } })
    expect(deferTools([raw], options)).toEqual([
      expect.objectContaining({
        toolName: 'pay',
        reason: expect.stringContaining('"anyOf" at the root'),
      }),
    ])
  })
})
