import { RunnableLambda, type RunnableConfig } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { isRecord } from '@x/internal'
import { expect, test } from 'vitest'
import { loadLangGraph } from '../graph/langgraph.ts'
import { toolFrom } from '../../test/answering-source.ts'
import type { McpTool } from './mcp-tool.ts'

/** A tool that runs the given code in the place of a server. */
function toolRunning(body: (config: RunnableConfig) => Promise<unknown>): McpTool {
  return toolFrom({
    name: 'add',
    source: {
      listTools: async () => [],
      async callTool(_name, _args, { config = {} } = {}) {
        await body(config)
        return { content: [{ type: 'text', text: 'two apples' }] }
      },
    },
  })
}

// Without LangGraph, core does not propagate a context.
await loadLangGraph()

test('runnables that are invoked inside are children of the run of the tool', async () => {
  const made = toolRunning(() => RunnableLambda.from(() => 'inner').invoke('x'))
  const heard: unknown[] = []
  const handler = {
    awaitHandlers: true,
    handleToolStart: (_tool: unknown, input: string, runId: string) =>
      void heard.push([input, runId]),
    handleChainStart: (...[, , , parent]: readonly unknown[]) => void heard.push(parent),
  }
  const runId = '01234567-89ab-4cde-8f01-23456789abcd'
  await made.invoke({ item: 'x' }, { callbacks: [handler], runId })
  expect(heard).toEqual([['{"item":"x"}', runId], runId])
})

test.each([{}, { runName: 'shopping' }])(
  'code inside reads the config of the run (%j)',
  async (config) => {
    let seen: unknown
    const made = toolRunning(async () => {
      const ambient: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
      seen = isRecord(ambient) ? ambient['configurable'] : undefined
    })
    await made.invoke({ item: 'x' }, { ...config, configurable: { user: 'u1' } })
    expect(seen).toEqual({ user: 'u1' })
  },
)

test('the reason of an abort reaches the caller and the callbacks', async () => {
  const aborting = new AbortController()
  const errors: unknown[] = []
  const made = toolRunning(
    ({ signal }) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason))
        aborting.abort(new Error('enough'))
      }),
  )
  const handler = {
    awaitHandlers: true,
    handleToolError: (error: unknown) => void errors.push(error),
  }
  const call = made.invoke({ item: 'x' }, { signal: aborting.signal, callbacks: [handler] })
  await expect(call).rejects.toThrow('enough')
  expect(errors).toEqual([new Error('enough')])
})

test('a call without a config has that of the run around it, and its own one outside of a run', async () => {
  const seen: unknown[] = []
  const made = toolRunning(async ({ configurable }) => void seen.push(configurable?.['user']))
  await RunnableLambda.from(() => made.invoke({ item: 'x' })).invoke(
    {},
    { configurable: { user: 'u1' } },
  )
  await made.invoke({ item: 'x' })
  await made.withConfig({ configurable: { user: 'u2' } }).invoke({ item: 'x' })
  expect(seen).toEqual(['u1', undefined, 'u2'])
})
