import { BaseCallbackHandler } from '@langchain/core/callbacks/base'
import { CallbackManager } from '@langchain/core/callbacks/manager'
import { awaitAllCallbacks } from '@langchain/core/callbacks/promises'
import { ToolMessage, type ToolCall } from '@langchain/core/messages'
import { RunnableLambda, type RunnableConfig } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { tool, type StructuredTool, type ToolRunnableConfig } from '@langchain/core/tools'
import { FakeTracer } from '@langchain/core/utils/testing'
import { isRecord } from '@x/internal'
import { describe, expect, test, vi } from 'vitest'
import { loadLangGraph } from '../interrupts/langgraph.ts'
import { McpTool } from './mcp-tool.ts'
import type { ToolCallOptions, ToolResult } from '../base/tool-source.ts'

const schema = {
  type: 'object',
  properties: { item: { type: 'string' } },
  required: ['item'],
} as const
const TEXT = 'two apples'
const artifact = [{ type: 'mcp_content', data: [{ type: 'text', text: TEXT }] }]

/** Behaviour of a tool in a call, the same for both tools. */
type Body = (config: RunnableConfig) => Promise<void>

interface Given {
  readonly body?: Body
  readonly fields?: {
    readonly tags?: string[]
    readonly callbacks?: CallbackManager
    readonly verbose?: boolean
  }
}

const metadata = { tool_type: 'mcp', display_name: 'add', slug: 'shop' }

function corePeer({ body = async () => {}, fields = {} }: Given): StructuredTool {
  const made = tool(
    async (_args: unknown, config: ToolRunnableConfig) => {
      await body(config)
      return [TEXT, artifact]
    },
    { name: 'add', schema, responseFormat: 'content_and_artifact', metadata },
  )
  return Object.assign(made, fields)
}

function ours({ body = async () => {}, fields = {} }: Given): StructuredTool {
  const made = new McpTool({
    name: 'add',
    definition: { name: 'add', inputSchema: schema },
    server: { slug: 'shop' },
    source: {
      listTools: async () => [],
      async callTool(_name, _args, { config = {} }: ToolCallOptions = {}): Promise<ToolResult> {
        await body(config)
        return { content: [{ type: 'text', text: TEXT }] }
      },
    },
  })
  return Object.assign(made, fields)
}

/** Records all callbacks for tools and chains. */
class Heard extends BaseCallbackHandler {
  readonly name = 'heard'
  override readonly awaitHandlers = true
  readonly calls: unknown[] = []

  override handleToolStart(...[serialized, ...rest]: unknown[]): void {
    // The class differs on purpose.
    const { id: _, ...others } = isRecord(serialized) ? serialized : {}
    this.calls.push(['toolStart', others, ...rest])
  }

  override handleToolEnd(...args: unknown[]): void {
    this.calls.push(['toolEnd', ...args])
  }

  override handleToolError(...args: unknown[]): void {
    this.calls.push(['toolError', ...args])
  }

  override handleChainStart(...[, ...rest]: unknown[]): void {
    this.calls.push(['chainStart', ...rest])
  }

  override handleChainEnd(...args: unknown[]): void {
    this.calls.push(['chainEnd', ...args])
  }
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g

/** Times, and the class of a tool. */
const PASSING: ReadonlySet<string> = new Set([
  'start_time',
  'end_time',
  'time',
  '_serialized_start_time',
  'dotted_order',
  'serialized',
])

/** Replaces ids by their order, and removes class and time, so that two runs can be compared. */
function comparable(value: unknown): unknown {
  const ids = new Map<string, string>()
  const text = JSON.stringify(value, (key, part: unknown) => (PASSING.has(key) ? undefined : part))
  if (text === undefined) return undefined
  return JSON.parse(
    text.replaceAll(UUID, (id) => {
      if (!ids.has(id)) ids.set(id, `id-${ids.size}`)
      return ids.get(id) ?? ''
    }),
  )
}

// Without LangGraph, core does not propagate a context.
await loadLangGraph()

async function settled(run: () => Promise<unknown>): Promise<unknown> {
  try {
    return { value: await run() }
  } catch (error) {
    return { error }
  }
}

const toolCall = { type: 'tool_call', id: 'call-1', name: 'add', args: { item: 'x' } } as const
const RUN_ID = '01234567-89ab-4cde-8f01-23456789abcd'
const nothing = { item: 'x' }

const INPUTS: readonly (readonly [
  what: string,
  input: typeof nothing | ToolCall,
  config: ToolRunnableConfig,
])[] = [
  ['plain arguments', nothing, {}],
  ['a tool call', toolCall, {}],
  ['a tool call without an id', { ...toolCall, id: '' }, {}],
  ['a tool call in the config', nothing, { toolCall }],
  ['a name for the run', toolCall, { runName: 'shopping' }],
  ['an id for the run', toolCall, { runId: RUN_ID }],
  ['tags and metadata', toolCall, { tags: ['a', 'b'], metadata: { who: 'me', slug: 'theirs' } }],
  ['configurable', toolCall, { configurable: { thread_id: 't1', model: 'm' } }],
  ['a limit of time', nothing, { timeout: 60_000 }],
]

describe.each(INPUTS)('with %s', (_, input, config) => {
  test.each([
    ['nobody listens', {}],
    ['the tool has tags of its own', { tags: ['own'] }],
  ])('answers as a tool of core does, if %s', async (__, fields) => {
    const [theirs, mine] = await Promise.all(
      [corePeer({ fields }), ours({ fields })].map((made) => made.invoke(input, config)),
    )
    expect(mine).toEqual(theirs)
    expect(mine instanceof ToolMessage).toBe(theirs instanceof ToolMessage)
  })

  test.each<[what: string, body: Body]>([
    ['answers', async () => {}],
    [
      'fails',
      async () => {
        throw new TypeError('broken')
      },
    ],
    [
      'invokes something itself',
      async () => {
        await RunnableLambda.from(() => 'inner').invoke('x')
      },
    ],
  ])('emits the same callbacks as a tool of core that %s', async (__, body) => {
    const heard = [corePeer, ours].map(async (make) => {
      const handler = new Heard()
      const local = new Heard()
      const fields = { tags: ['own'], callbacks: CallbackManager.fromHandlers({}) }
      fields.callbacks.addHandler(local, false)
      const made = make({ body, fields })
      await settled(() => made.invoke(input, { ...config, callbacks: [handler] }))
      return comparable([handler.calls, local.calls])
    })
    const [theirs, mine] = await Promise.all(heard)
    expect(mine).toEqual(theirs)
    expect(theirs).toHaveProperty('0.0.0', 'toolStart')
  })

  test('gives a tracer the same run', async () => {
    const traced = [corePeer, ours].map(async (make) => {
      const tracer = new FakeTracer()
      await make({}).invoke(input, { ...config, callbacks: [tracer] })
      await awaitAllCallbacks()
      return comparable(tracer.runs)
    })
    const [theirs, mine] = await Promise.all(traced)
    expect(mine).toEqual(theirs)
    expect(theirs).toHaveProperty('0.run_type', 'tool')
  })

  test('lets code inside read the same config of its run', async () => {
    const read = [corePeer, ours].map(async (make) => {
      let seen: unknown
      const made = make({
        async body() {
          const ambient: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
          const { configurable, metadata: data, tags } = isRecord(ambient) ? ambient : {}
          seen = { configurable, metadata: data, tags }
        },
      })
      await made.invoke(input, { ...config, callbacks: [new Heard()] })
      return seen
    })
    const [theirs, mine] = await Promise.all(read)
    expect(mine).toEqual(theirs)
  })
})

test('is a child of an outer run, and streams the same events', async () => {
  const streamed = [corePeer, ours].map(async (make) => {
    const made = make({
      async body() {
        await RunnableLambda.from(() => 'inner').invoke('x')
      },
    })
    const outer = RunnableLambda.from(async (item: string) => made.invoke({ item }))
    const events: unknown[] = []
    const config = {
      tags: ['outer'],
      metadata: { who: 'me' },
      configurable: { thread_id: 't1' },
    }
    for await (const event of outer.streamEvents('x', { ...config, version: 'v2' })) {
      events.push(event)
    }
    return comparable(events)
  })
  const [theirs, mine] = await Promise.all(streamed)
  expect(mine).toEqual(theirs)
  expect(JSON.stringify(theirs)).toContain('on_tool_end')
})

test("lets code inside read the caller's config without callbacks too", async () => {
  const read = [corePeer, ours].map(async (make) => {
    let seen: unknown
    const made = make({
      async body() {
        const ambient: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
        seen = isRecord(ambient) ? ambient['configurable'] : undefined
      },
    })
    await made.invoke(nothing, { configurable: { user: 'u1' } })
    return seen
  })
  expect(await Promise.all(read)).toEqual([{ user: 'u1' }, { user: 'u1' }])
})

test('rejects with the reason of an abort, and reports it as a tool error', async () => {
  const rejected = [corePeer, ours].map(async (make) => {
    const aborting = new AbortController()
    const handler = new Heard()
    const made = make({
      body: ({ signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason))
          aborting.abort(new Error('enough'))
        }),
    })
    const outcome = await settled(() =>
      made.invoke(nothing, { signal: aborting.signal, callbacks: [handler] }),
    )
    return [outcome, comparable(handler.calls)]
  })
  const [theirs, mine] = await Promise.all(rejected)
  expect(mine).toEqual(theirs)
  expect(theirs?.[0]).toEqual({ error: new Error('enough') })
})

test('rejects in the same way after a time-out', async () => {
  const rejected = [corePeer, ours].map((make) =>
    settled(() => {
      const body: Body = ({ signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason))
        })
      return make({ body }).invoke(nothing, { timeout: 1 })
    }),
  )
  const [theirs, mine] = await Promise.all(rejected)
  expect(mine).toEqual(theirs)
  expect(theirs).toHaveProperty('error.name', 'TimeoutError')
})

test('prints the same for a verbose tool', async () => {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  try {
    const told: unknown[] = []
    for (const make of [corePeer, ours]) {
      log.mockClear()
      // The tests share the console.
      await make({ fields: { verbose: true } }).invoke(toolCall)
      told.push(
        log.mock.calls.map(([line]) => String(line).replaceAll(/\[?\d+(ms|\.\d+s)\]?/g, '')),
      )
    }
    expect(told[1]).toEqual(told[0])
    expect(told[0]).toHaveLength(2)
  } finally {
    log.mockRestore()
  }
})
