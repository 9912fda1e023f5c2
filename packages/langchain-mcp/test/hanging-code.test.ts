// Code of the user that fails, or never answers: each call ends, and its outcome is known.
import { InMemoryStore, type BaseStore } from '@langchain/langgraph'
import { stopClock } from '@x/internal/testing/clock'
import { McpClient } from '@x/mcp-client'
import { startModernServer } from '@x/mcp-testing'
import { SessionInfo } from '@x/mcp-transport'
import { bearer } from '@x/mcp-transport/auth'
import { describe, expect, test, vi } from 'vitest'
import { elicitationToInterrupt, loadMcpTools, type ToolLogEntry } from '../src/index.ts'
import type { McpToolSource } from '../src/tool-source.ts'
import { askingGraph } from './asking-graph.ts'
import { AnsweringSource, textResult, toolCall, toolOver } from './answering-source.ts'
import { startAskingServer } from './asking-server.ts'

const failing = {
  'never settles': (): Promise<never> => new Promise(() => {}),
  throws: (): never => {
    throw new Error('broken')
  },
  rejects: (): Promise<never> => Promise.reject(new Error('broken')),
}
const ways = Object.keys(failing) as (keyof typeof failing)[]

/** A store one method of which fails: always, or only after the tool was executed. */
function storeWith(
  method: 'get' | 'put' | 'delete' | 'search',
  way: keyof typeof failing,
  isBroken: () => boolean,
): BaseStore {
  const store = new InMemoryStore()
  return Object.assign(store, {
    [method]: (...args: unknown[]): unknown =>
      isBroken()
        ? failing[way]()
        : Reflect.apply(InMemoryStore.prototype[method] as () => unknown, store, args),
  })
}

describe.each(['get', 'put', 'delete', 'search'] as const)('%s() of the store', (method) => {
  describe.each(ways)('%s', (way) => {
    test.each(['before', 'after'] as const)(
      '%s the request, and the call ends with its result',
      async (when) => {
        let executions = 0
        const source: McpToolSource = {
          listTools: () => Promise.resolve([{ name: 'pay' }]),
          callTool: () => {
            executions += 1
            return Promise.resolve({ content: [{ type: 'text', text: 'paid' }] })
          },
        }
        const log: ToolLogEntry[] = []
        const elicitation = elicitationToInterrupt({ log: (entry) => void log.push(entry) })
        const tools = await loadMcpTools(source, { elicitation, server: { slug: 'shop' } })
        const store = storeWith(method, way, () => when === 'before' || executions > 0)
        stopClock()
        for (const thread of ['t1', 't2']) {
          const calls = [{ name: 'pay' }]
          const graph = askingGraph({ kind: 'createAgent', tools, calls, store, thread })
          const turn = graph.start()
          const over = Symbol('over')
          const ended = turn.then(() => over)
          const next = () => new Promise((resolve) => setImmediate(resolve))
          while ((await Promise.race([ended, next()])) !== over) {
            await vi.advanceTimersByTimeAsync(100)
          }
          const { answers } = await turn
          expect(answers['call-0']).toMatchObject({ content: 'paid' })
        }
        expect(executions).toBe(2)
        const isNeeded = method === 'get' || method === 'put'
        const codes = log.map(({ code }) => code)
        expect(codes).toEqual(isNeeded ? ['CALL_NOT_RECORDED'] : [])
      },
    )
  })
})

type Fail = () => Promise<never>
type Setup = (fail: Fail, url: string) => ConstructorParameters<typeof McpClient>

const limit = { timeoutMs: 300 }

/** Code that a call needs before it is sent. */
const beforeCalls: Readonly<Record<string, Setup>> = {
  'a header function': (headers, url) => [{ url, headers }, limit],
  'a function for a token': (token, url) => [{ url }, { ...limit, authProvider: bearer(token) }],
  'a directory': (retrieve) => [{ slug: 'shop' }, { ...limit, directory: { retrieve } }],
  'a factory of session stores': (createSession, url) => [
    { url },
    { ...limit, sessionInfoFactory: { createSession } },
  ],
}

describe.each(['modern', 'legacy'] as const)('a server of the %s era', (era) => {
  const start = () => (era === 'modern' ? startModernServer() : startAskingServer())
  const [tool, args] = era === 'modern' ? ['add', { a: 1, b: 2 }] : ['pay', {}]

  describe.each(Object.entries(beforeCalls))('%s', (_what, setup) => {
    test.each(ways)('that %s ends the call, and nothing was sent', async (way) => {
      await using server = await start()
      await using client = new McpClient(...setup(async () => failing[way](), server.url))
      const error: unknown = await client.callTool(tool, args).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(Error)
      // The errors of directories and factories are passed on as they are.
      const isPassedOn = (error as Error).message === 'broken'
      expect(isPassedOn || (error as { outcome?: unknown }).outcome === 'not-executed').toBe(true)
      expect(server.executions(tool)).toBe(0)
    })
  })

  describe.each(ways)('a session store that %s', (way) => {
    test.each(['before', 'after'] as const)('%s the request fails no call', async (when) => {
      await using server = await start()
      const fail = (own: () => Promise<unknown>) => async (): Promise<unknown> =>
        when === 'before' || server.executions(tool) > 0 ? failing[way]() : own()
      const createSession = (): SessionInfo => {
        const info = new SessionInfo()
        const methods = ['getSessionId', 'getRecord', 'setSessionId', 'setRecord'] as const
        const all = methods.map((name) => [name, fail(() => info[name](undefined))])
        return Object.assign(new SessionInfo(), Object.fromEntries(all))
      }
      await using client = new McpClient(
        { url: server.url },
        { sessionInfoFactory: { createSession } },
      )
      for (const times of [1, 2]) {
        // In sequence: the store fails before the second call, or between the two.
        await expect(client.callTool(tool, args)).resolves.toBeDefined()
        expect(server.executions(tool)).toBe(times)
      }
    })
  })

  test('a handler that never settles ends the call at its limit, with an unknown outcome', async () => {
    stopClock()
    await using server = await start()
    const asked: unknown[] = []
    const elicitation = (question: unknown): Promise<never> => {
      asked.push(question)
      return failing['never settles']()
    }
    await using client = new McpClient({ url: server.url }, { ...limit, handlers: { elicitation } })
    const error = client
      .callTool(era === 'modern' ? 'confirm' : 'ask')
      .catch((reason: unknown) => reason)
    // The server of the SDK waits for such timers.
    while (asked.length === 0) await vi.advanceTimersByTimeAsync(0)
    vi.advanceTimersByTime(limit.timeoutMs)
    expect(await error).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
  })
})

describe.each(['interceptors', 'onToolError'] as const)('%s', (option) => {
  test('that never settle end with their run', async () => {
    const source = new AnsweringSource(textResult('failed', { isError: true }))
    const waits = Promise.withResolvers<void>()
    const wait = (): Promise<never> => {
      waits.resolve()
      return failing['never settles']()
    }
    const hanging = option === 'interceptors' ? { interceptors: [wait] } : { onToolError: wait }
    const aborting = new AbortController()
    const answer = toolOver(source, {}, hanging).invoke(toolCall({ item: 'tea' }), {
      signal: aborting.signal,
    })
    await waits.promise
    aborting.abort(new Error('enough'))
    await expect(answer).rejects.toThrow('enough')
  })
})
