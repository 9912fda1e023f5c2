import { randomUUID } from 'node:crypto'
import { v6 } from '@langchain/core/utils/uuid'
import {
  InMemoryStore,
  MemorySaver,
  type BaseCheckpointSaver,
  type BaseStore,
} from '@langchain/langgraph'
import { startLegacyServer } from '@x/mcp-testing'
import { createAgent } from 'langchain'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createMcpTools, type McpTools } from '../src/index.ts'
import { innerNames } from '../src/graph/langgraph.ts'
import { CallJournal } from '../src/graph/call-journal.ts'
import type { CallOutcome } from '../src/graph/call-outcome.ts'
import type { GraphPlace } from '../src/graph/graph-place.ts'
import { threadNamespace } from '../src/graph/call-context.ts'
import { ScriptedModel } from './scripted-model.ts'

const DAY_MS = 24 * 3_600_000

interface Kept {
  readonly checkpointer: BaseCheckpointSaver
  readonly store: BaseStore
}

const configOf = (thread: string) => ({
  configurable: { thread_id: thread },
  durability: 'sync' as const,
})

const inMemory = (): Kept => ({ checkpointer: new MemorySaver(), store: new InMemoryStore() })

async function agentOf(mcp: McpTools, kept: Kept) {
  return createAgent({ model: new ScriptedModel(), tools: await mcp.listTools(), ...kept })
}

const say = (content: string) => ({ messages: [{ role: 'user' as const, content }] })

const recordsIn = (store: BaseStore) => store.search(['mcp', 'call'], { limit: 1000 })

/** Drops the writes of tasks, like a process that is killed before it stores them. */
class ForgetfulSaver extends MemorySaver {
  isForgetful = true

  override async putWrites(
    ...[config, writes, task]: Parameters<MemorySaver['putWrites']>
  ): Promise<void> {
    if (!this.isForgetful) await super.putWrites(config, writes, task)
  }
}

test.each([0, 31])(
  'sends a call once whose outcome is in no checkpoint, also after %i days',
  async (days) => {
    await using server = await startLegacyServer()
    const checkpointer = new ForgetfulSaver()
    const kept = { checkpointer, store: new InMemoryStore() }
    const stop = new AbortController()
    const inProcess = async (work: (mcp: McpTools) => Promise<unknown>): Promise<void> => {
      await using mcp = createMcpTools({
        servers: { shop: { url: server.url } },
        interceptors: [
          async (_request, next) => {
            const answer = await next()
            stop.abort(new Error('killed'))
            return answer
          },
        ],
      })
      await work(mcp)
    }
    await inProcess(async (mcp) => {
      const agent = await agentOf(mcp, kept)
      const run = agent.invoke(say('call counter_add'), { ...configOf('t1'), signal: stop.signal })
      await expect(run).rejects.toThrow('killed')
    })
    expect(server.executions('counter_add')).toBe(1)
    expect(await recordsIn(kept.store)).toHaveLength(1)
    checkpointer.isForgetful = false
    if (days > 0)
      for (const { namespace, key } of await recordsIn(kept.store))
        await kept.store.delete(namespace, key)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + days * DAY_MS })
    onTestFinished(() => void vi.useRealTimers())
    await inProcess(async (mcp) => {
      const agent = await agentOf(mcp, kept)
      await agent.invoke(null, configOf('t1'))
    })
    expect(server.executions('counter_add')).toBe(1)
  },
)

describe('deleteThread()', () => {
  test('ends the sessions of the thread, and deletes its stored sessions and records', async () => {
    await using server = await startLegacyServer()
    const kept = inMemory()
    await using mcp = createMcpTools({ servers: { shop: { url: server.url } }, session: 'thread' })
    const agent = await agentOf(mcp, kept)
    for (const thread of ['mine', 'theirs']) {
      await agent.invoke(say('call counter_add'), configOf(thread))
      await kept.store.put(threadNamespace('call', thread), 'of a killed run', { state: 'sent' })
    }
    expect(server.sessions).toHaveLength(2)
    await mcp.deleteThread('mine')
    const left = await kept.store.search(['mcp'], { limit: 100 })
    expect(new Set(left.map(({ namespace }) => namespace.join()))).toEqual(
      new Set(
        [threadNamespace('session', 'theirs'), threadNamespace('call', 'theirs')].map(String),
      ),
    )
    expect(server.sessions).toHaveLength(1)
    await agent.invoke(say('call counter_add'), configOf('theirs'))
    expect(server.sessions).toHaveLength(1)
  })

  test('uses the given store before any tool was called', async () => {
    const store = new InMemoryStore()
    await store.put(threadNamespace('call', 'old'), 'key', { state: 'sent' })
    await using mcp = createMcpTools({ servers: { shop: { url: 'http://127.0.0.1:9/mcp' } } })
    await expect(mcp.deleteThread('old')).rejects.toMatchObject({ code: 'CONFIG' })
    await mcp.deleteThread('old', { store })
    expect(await recordsIn(store)).toEqual([])
  })
})

describe('a journal', () => {
  const origin = { server: { name: 'shop' }, toolName: 'pay' }
  const done: CallOutcome = { kind: 'result', result: { content: [] } }

  function placeOf(store: BaseStore | undefined, thread = 't1'): GraphPlace {
    const task = randomUUID()
    return {
      key: JSON.stringify([thread, task, 'c1']),
      thread,
      task,
      graph: '',
      namespace: '',
      toolCallId: 'c1',
      call: 'c1',
      isAlone: true,
      store,
      checkpoint: v6({ msecs: Date.now() }),
      inner: innerNames({ __pregel_checkpointer: { getTuple: () => Promise.resolve({}) } }),
      reads: new Map(),
    }
  }

  test('deletes expired records of other threads, and keeps the others', async () => {
    const store = new InMemoryStore()
    const send = () => Promise.resolve(done)
    const at = async (time: number, thread: string) => {
      vi.useFakeTimers({ toFake: ['Date'], now: time })
      const journal = new CallJournal()
      await journal.once({ origin, place: placeOf(store, thread), number: 0 }, send)
      await journal.settle()
      vi.useRealTimers()
    }
    await at(Date.now() - 31 * DAY_MS, 'old')
    await at(Date.now() - 29 * DAY_MS, 'recent')
    await at(Date.now(), 'new')
    expect((await recordsIn(store)).map(({ namespace }) => namespace.join())).toEqual(
      ['recent', 'new'].map((thread) => String(threadNamespace('call', thread))),
    )
  })

  test('does not send a call whose record may have expired', async () => {
    const send = vi.fn<() => Promise<CallOutcome>>()
    const checkpoint = v6({ msecs: Date.now() - 31 * DAY_MS })
    const place = { ...placeOf(new InMemoryStore()), checkpoint }
    const outcome = await new CallJournal().once({ origin, place, number: 0 }, send)
    expect(outcome).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(send).not.toHaveBeenCalled()
  })

  test.each([
    ['the process', undefined],
    ['the store', new InMemoryStore()],
  ])('sends a round once, if %s knows it', async (_what, store) => {
    const journal = new CallJournal()
    const place = placeOf(store)
    const send = vi.fn<() => Promise<CallOutcome>>(() => Promise.resolve(done))
    const both = [0, 0].map((number) => journal.once({ origin, place, number }, send))
    expect(await Promise.all(both)).toEqual([done, done])
    await journal.once({ origin, place, number: 0 }, send)
    expect(send).toHaveBeenCalledTimes(1)
  })

  test('does not repeat a call in another process after the tool reported an error', async () => {
    const place = placeOf(new InMemoryStore())
    const failed: CallOutcome = { kind: 'result', result: { content: [], isError: true } }
    const send = vi.fn<() => Promise<CallOutcome>>(() => Promise.resolve(failed))
    for (const journal of [new CallJournal(), new CallJournal()]) {
      expect(await journal.once({ origin, place, number: 0 }, send)).toEqual(failed)
    }
    expect(send).toHaveBeenCalledTimes(1)
  })

  test('repeats a call that was certainly not executed', async () => {
    const journal = new CallJournal()
    const place = placeOf(undefined)
    const error = Object.assign(new Error('down'), { outcome: 'not-executed' })
    const send = vi
      .fn<() => Promise<CallOutcome>>(() => Promise.resolve(done))
      .mockRejectedValueOnce(error)
    await expect(journal.once({ origin, place, number: 0 }, send)).rejects.toBe(error)
    expect(await journal.once({ origin, place, number: 0 }, send)).toBe(done)
  })
})
