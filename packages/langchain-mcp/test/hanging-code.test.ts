// Code of the user that fails, or never answers: each call ends, and its outcome is known.
import { InMemoryStore, type BaseStore } from '@langchain/langgraph'
import { stopClock } from '@x/internal/testing/clock'
import { describe, expect, test, vi } from 'vitest'
import { elicitationToInterrupt, loadMcpTools, type ToolLogEntry } from '../src/index.ts'
import type { McpToolSource } from '../src/tool-source.ts'
import { askingGraph } from './asking-graph.ts'
import { AnsweringSource, textResult, toolCall, toolOver } from './answering-source.ts'

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
