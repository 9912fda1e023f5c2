import { isRecord } from '@x/internal'
import { MemoryGatewayStore } from '@x/mcp-gateway'
import { deferred } from '@x/mcp-testing'
import { OpenResources } from '@x/internal/testing'
import { describe, expect, test, vi } from 'vitest'

import {
  begunTask,
  settledTask,
  startKillableGateway,
  type KillableGateway,
} from '../../mcp-gateway/test/killable-gateway.ts'
import { cancel, get, update } from '../../mcp-gateway/test/task-requests.ts'
import { startA2aAgent, type A2aAgent, type AgentScript } from '../test/a2a-agent.ts'
import { a2aSource } from './source.ts'

type World = Awaited<ReturnType<typeof newWorld>>

const TOOL = 'weather_forecast'

/** Gateways over one store, with one agent. */
async function newWorld(script: AgentScript, options: Parameters<typeof startA2aAgent>[1]) {
  const resources = new OpenResources()
  const agent = resources.use(await startA2aAgent(script, options))
  const memory = resources.use(new MemoryGatewayStore())
  const { blobs, logs, rates, records } = memory
  const isReady = (): Promise<boolean> => memory.isReady()
  const parts = { blobs, logs, rates, records, isReady, close: async () => {} }
  const store = { ...parts, isDurable: true, isShared: true }
  const startGateway = (): KillableGateway =>
    resources.use(startKillableGateway(store, () => sourceOf(agent)))
  return {
    agent,
    store,
    startGateway,
    [Symbol.asyncDispose]: () => resources[Symbol.asyncDispose](),
  }
}

function sourceOf({ url, origin }: A2aAgent): ReturnType<typeof a2aSource> {
  return a2aSource({ cards: [url], trustedOrigins: [origin], pollMs: 5, random: () => 0 })
}

const sent = ({ agent }: World): number =>
  agent.methods.filter((method) => /^(Send|message)/.test(method)).length

/** Begins a task, and waits until its record names the task of the agent. */
async function taskOf({ store }: World, gateway: KillableGateway): Promise<unknown> {
  const taskId = await begunTask(gateway, TOOL)
  const isNamed = async (): Promise<boolean> => {
    const [record] = await store.records.list('call:')
    const state = isRecord(record?.value) ? record.value['state'] : undefined
    return isRecord(state) && state['remote'] !== undefined
  }
  await vi.waitUntil(isNamed, { timeout: 300_000 })
  return taskId
}

const text = (content: string): object => ({
  status: 'completed',
  result: { content: [{ type: 'text', text: content }] },
})

const KINDS = [
  { version: '1.0', streaming: true },
  { version: '1.0', streaming: false },
  { version: '0.3', streaming: true },
] as const

describe.concurrent.each(KINDS)(
  'a task whose agent speaks A2A $version, streaming: $streaming',
  (kind) => {
    test('is joined by another process when its process dies or stops', async () => {
      const go = deferred()
      await using world = await newWorld(async (turn) => {
        turn.begin()
        turn.status(2, 'Looking')
        await go.promise
        turn.status(3, 'It will rain.')
      }, kind)
      const a = world.startGateway()
      const taskId = await taskOf(world, a)
      await a.kill()
      const b = world.startGateway()
      const isJoined = async (): Promise<boolean> => {
        await get(b.fetch, taskId)
        const [record] = await world.store.records.list('call:')
        return isRecord(record?.value) && record.value['attempt'] === 2
      }
      await vi.waitUntil(isJoined, { timeout: 300_000 })
      await b[Symbol.asyncDispose]()
      expect(world.agent.methods.filter((method) => /cancel/i.test(method))).toEqual([])
      const c = world.startGateway()
      go.resolve()
      expect(await settledTask(c, taskId)).toMatchObject(text('It will rain.'))
      expect(sent(world)).toBe(1)
    })

    test('asks what it asked while no process had joined, and goes on with the answer', async () => {
      const go = deferred()
      await using world = await newWorld(async (turn) => {
        turn.begin()
        if (turn.isContinued) return turn.status(3, `Sun in ${turn.words}`)
        turn.status(2, 'Looking')
        await go.promise
        turn.status(6, 'Where?')
      }, kind)
      const a = world.startGateway()
      const taskId = await taskOf(world, a)
      await a.kill()
      go.resolve()
      const b = world.startGateway()
      expect(await settledTask(b, taskId)).toMatchObject({ status: 'input_required' })
      await update(b.fetch, taskId, { '1.i0': { action: 'accept', content: { answer: 'Oslo' } } })
      expect(await settledTask(b, taskId)).toMatchObject(text('Sun in Oslo'))
      expect(sent(world)).toBe(2)
    })

    test('is cancelled at the agent after its process died', async () => {
      const isCancelled = deferred()
      await using world = await newWorld(async (turn) => {
        turn.begin()
        turn.status(2, 'Looking')
        await turn.cancelled
        isCancelled.resolve()
      }, kind)
      const [a, b] = [world.startGateway(), world.startGateway()]
      const taskId = await taskOf(world, a)
      await a.kill()
      await cancel(b.fetch, taskId)
      await isCancelled.promise
      expect(await settledTask(b, taskId)).toMatchObject({ status: 'cancelled' })
    })

    test('fails if the agent forgot its task, and sends the message once', async () => {
      const isOver = deferred()
      await using world = await newWorld(async (turn) => {
        turn.begin()
        turn.status(2, 'Looking')
        await isOver.promise
      }, kind)
      const a = world.startGateway()
      const taskId = await taskOf(world, a)
      await a.kill()
      world.agent.forget()
      const b = world.startGateway()
      expect(await settledTask(b, taskId)).toMatchObject({
        status: 'failed',
        error: {
          message: expect.stringContaining('does not know the task of this call any more'),
          data: { reason: 'outcome_unknown' },
        },
      })
      expect(sent(world)).toBe(1)
      isOver.resolve()
    })
  },
)
