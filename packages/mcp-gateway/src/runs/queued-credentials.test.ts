import { expect, test } from 'vitest'
import { ManualClock, settled } from '../../test/manual-clock.ts'
import type { Principal } from '../internal/principal.ts'
import {
  credentialsOf,
  withCredentials,
  type UserCredentials,
} from '../internal/user-credentials.ts'
import type { StoredCall } from './call-store.ts'
import { QueuedCredentials } from './queued-credentials.ts'

const runId = 'run_0123456789abcdef'
const credentials: UserCredentials = {
  token: async () => ({ accessToken: 'token' }),
  rejected: () => undefined,
}

function ada(claims: Principal['claims'] = {}): Principal {
  return { id: 'ada', scopes: [], isAnonymous: false, claims }
}

/** Keeps the credentials of one queued task. */
function keptWorld({
  claims,
  expiresAt = Number.POSITIVE_INFINITY,
}: { claims?: Principal['claims']; expiresAt?: number } = {}) {
  const clock = new ManualClock()
  let call: unknown = { state: { status: 'running', process: '' } }
  const watchers = new Set<() => void>()
  const store = {
    read: async () => call && ({ call, version: '1' } as StoredCall),
    watch: (_runId: string, watcher: () => void) => {
      watchers.add(watcher)
      return () => void watchers.delete(watcher)
    },
  }
  const queued = new QueuedCredentials(store as never, { clock, lease: { id: 'here' } })
  queued.keep({ runId, principal: withCredentials(ada(claims), credentials) }, expiresAt)
  return {
    clock,
    queued,
    /** Stores the state of the task. */
    change: async (state: object | undefined) => {
      call = state && { state }
      for (const watcher of watchers) watcher()
      await settled()
    },
    /** Returns what a process that reads the task gets. */
    taken: () => {
      const principal = ada()
      queued.take({ runId, principal })
      expect([...watchers, ...Array<unknown>(clock.pending)]).toEqual([])
      return credentialsOf(principal)
    },
  }
}

test('gives the credentials of a queued task to this process once', async () => {
  const world = keptWorld()
  await world.change({ status: 'running', process: '' })
  await world.change({ status: 'running', process: 'here' })
  expect(world.taken()).toBe(credentials)
  expect(world.taken()).toBeUndefined()
})

test.each([
  ['another process has it', { status: 'running', process: 'elsewhere' }],
  ['it has ended', { status: 'ended' }],
  ['it is deleted', undefined],
])('drops the credentials of a task when %s', async (_title, state) => {
  const world = keptWorld()
  await world.change(state)
  expect(world.taken()).toBeUndefined()
})

test('drops credentials at the end of the token, or of the task', async () => {
  for (const over of [{ claims: { exp: 1060 } }, { expiresAt: 1_060_000 }]) {
    const late = keptWorld(over)
    await late.clock.advance(60_000)
    expect(late.taken()).toBeUndefined()
    const early = keptWorld(over)
    await early.clock.advance(59_999)
    expect(early.taken()).toBe(credentials)
  }
})

test('keeps no credentials after close()', async () => {
  const world = keptWorld()
  world.queued.close()
  expect(world.taken()).toBeUndefined()
})
