import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  Command,
  InMemoryStore,
  interrupt,
  MemorySaver,
  type BaseCheckpointSaver,
  type BaseStore,
} from '@langchain/langgraph'
import { startLegacyServer } from '@x/mcp-testing'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { createAgent } from 'langchain'
import { describe, expect, test, vi } from 'vitest'
import { createMcpTools, type McpTools } from '../src/index.ts'
import { CallJournal } from '../src/interrupts/call-journal.ts'
import type { CallOutcome } from '../src/interrupts/call-outcome.ts'
import type { GraphPlace } from '../src/interrupts/langgraph.ts'
import { threadNamespace } from '../src/sessions/call-context.ts'
import { ScriptedModel } from './scripted-model.ts'

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

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'call-records-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

describe('50 requests in 5 threads, each in its own process', () => {
  test.each([
    ['that closes its tools leave no record', true, 0],
    ['that closes nothing leave the records of the last call of each thread', false, 5],
  ])('%s', async (_what, closes, most) => {
    await using server = await startLegacyServer()
    await using folder = await temporaryFolder()
    const tools: McpTools[] = []
    for (let n = 0; n < 50; n++) {
      using store = new SqliteStore(join(folder.path, 'store.db'))
      const checkpointer = new SqliteSaver(join(folder.path, 'checkpoints.db'))
      const mcp = createMcpTools({ servers: { shop: { url: server.url } }, log: () => {} })
      tools.push(mcp)
      const agent = await agentOf(mcp, { checkpointer, store })
      await agent.invoke(say('call echo {"text":"again"}'), configOf(`t${n % 5}`))
      if (closes) await mcp.close()
      await expect
        .poll(async () => (await recordsIn(store)).length)
        .toBeLessThanOrEqual(closes ? most : Math.min(n + 1, most))
    }
    expect(server.executions('echo')).toBe(50)
    await Promise.all(tools.map((mcp) => mcp.close()))
  })
})

/** Drops the writes of tasks, like a process that is killed before it stores them. */
class ForgetfulSaver extends MemorySaver {
  isForgetful = true

  override async putWrites(
    ...[config, writes, task]: Parameters<MemorySaver['putWrites']>
  ): Promise<void> {
    if (!this.isForgetful) await super.putWrites(config, writes, task)
  }
}

test('keeps a record until a checkpoint has the outcome, and sends the call once', async () => {
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
  await inProcess(async (mcp) => {
    const agent = await agentOf(mcp, kept)
    await agent.invoke(null, configOf('t1'))
  })
  expect(server.executions('counter_add')).toBe(1)
  expect(await recordsIn(kept.store)).toEqual([])
})

test('does not repeat a finished call whose record is deleted while another call waits', async () => {
  await using server = await startLegacyServer()
  const kept = inMemory()
  const make = () =>
    createMcpTools({
      servers: { shop: { url: server.url } },
      interceptors: [
        (request, next) => {
          if (request.tool.name === 'cart_add') interrupt('May I?')
          return next()
        },
      ],
    })
  {
    await using mcp = make()
    const agent = await agentOf(mcp, kept)
    await agent.invoke(say('call counter_add\ncall cart_add {"item":"pear"}'), configOf('t1'))
  }
  expect(await recordsIn(kept.store)).toEqual([])
  await using mcp = make()
  const agent = await agentOf(mcp, kept)
  await agent.invoke(new Command({ resume: 'yes' }), configOf('t1'))
  await mcp.close()
  expect(await recordsIn(kept.store)).toEqual([])
  expect(server.executions('counter_add')).toBe(1)
  expect(server.executions('cart_add')).toBe(1)
})

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

  function placeOf(store: BaseStore | undefined, latest: string, thread = 't1'): GraphPlace {
    return {
      thread,
      task: randomUUID(),
      graph: '',
      namespace: '',
      toolCallId: 'c1',
      call: 'c1',
      isAlone: true,
      store,
      saver: { getTuple: () => Promise.resolve({ checkpoint: { id: latest } }) },
      checkpoints: { '': 'checkpoint-1' },
      answersById: undefined,
      isResumedInside: false,
    }
  }

  test('deletes records during the process, without another call', async () => {
    const store = new InMemoryStore()
    const deleted = new Promise((resolve) => {
      vi.spyOn(store, 'delete').mockImplementation(async (...item) => resolve(item))
    })
    const journal = new CallJournal([1])
    const place = placeOf(store, 'checkpoint-2')
    await journal.once({ origin, place, number: 0 }, () => Promise.resolve(done))
    expect(await deleted).toEqual([threadNamespace('call', 't1'), expect.any(String)])
  })

  test('removes the results of old records, and still knows that they were sent', async () => {
    const store = new InMemoryStore()
    const old = placeOf(store, 'checkpoint-1', 'old')
    const hour = 3_600_000
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 25 * hour })
    await new CallJournal().once({ origin, place: old, number: 0 }, () => Promise.resolve(done))
    vi.useRealTimers()
    const later = new CallJournal()
    const place = placeOf(store, 'checkpoint-1', 'new')
    await later.once({ origin, place, number: 0 }, () => Promise.resolve(done))
    await later.settle()
    const [record] = await store.search(threadNamespace('call', 'old'))
    expect(record?.value).toMatchObject({ state: 'sent', thread: 'old' })
    expect(record?.value).not.toHaveProperty('outcome')
    const send = vi.fn<() => Promise<CallOutcome>>()
    expect(await later.once({ origin, place: old, number: 0 }, send)).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
    })
    expect(send).not.toHaveBeenCalled()
  })

  test.each([
    ['the process', undefined],
    ['the store', new InMemoryStore()],
  ])('sends a round once, if %s knows it', async (_what, store) => {
    const journal = new CallJournal()
    const place = placeOf(store, 'checkpoint-1')
    const send = vi.fn<() => Promise<CallOutcome>>(() => Promise.resolve(done))
    const both = [0, 0].map((number) => journal.once({ origin, place, number }, send))
    expect(await Promise.all(both)).toEqual([done, done])
    await journal.once({ origin, place, number: 0 }, send)
    expect(send).toHaveBeenCalledTimes(1)
  })

  test('does not repeat a call in another process after the tool reported an error', async () => {
    const place = placeOf(new InMemoryStore(), 'checkpoint-1')
    const failed: CallOutcome = { kind: 'result', result: { content: [], isError: true } }
    const send = vi.fn<() => Promise<CallOutcome>>(() => Promise.resolve(failed))
    for (const journal of [new CallJournal(), new CallJournal()]) {
      expect(await journal.once({ origin, place, number: 0 }, send)).toEqual(failed)
    }
    expect(send).toHaveBeenCalledTimes(1)
  })

  test('repeats a call that was certainly not executed', async () => {
    const journal = new CallJournal()
    const place = placeOf(undefined, 'checkpoint-1')
    const error = Object.assign(new Error('down'), { outcome: 'not-executed' })
    const send = vi
      .fn<() => Promise<CallOutcome>>(() => Promise.resolve(done))
      .mockRejectedValueOnce(error)
    await expect(journal.once({ origin, place, number: 0 }, send)).rejects.toBe(error)
    expect(await journal.once({ origin, place, number: 0 }, send)).toBe(done)
  })
})
