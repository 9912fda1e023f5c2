import { withErrorLink } from '@x/internal'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { startRedisServer } from '@x/internal/testing'

import type { Caller } from '../src/internal/principal.ts'
import { Artifacts } from '../src/files/artifacts.ts'
import { newScopeId } from '../src/files/scopes.ts'
import type { Principal } from '../src/internal/principal.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import type { GatewayStore } from '../src/store/gateway-store.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { redisStore } from './redis-store.ts'
import { artifactsOptions, type GivenArtifacts } from './settings.ts'

/** A caller with a name. */
export function named(id: string): Caller {
  return { principal: { id, isAnonymous: false, scopes: [], claims: {} } }
}

/** Principal of callers without a name. */
export const nobody: Principal = { id: 'mcp_user', isAnonymous: true, scopes: [], claims: {} }

/** A caller without a name that has a session. */
export function session(): Caller {
  return { principal: nobody, scope: newScopeId() }
}

export { bytesOf } from './stored-bytes.ts'

/** Time that only tests change. Its timers never fire: tests call the sweeps. */
class TestClock {
  time = 1_700_000_000_000
  now = (): number => this.time
  after = (): (() => void) => () => {}
}

/** Artifacts and their store. */
export interface World extends AsyncDisposable {
  readonly store: GatewayStore
  readonly clock: TestClock
  readonly artifacts: Artifacts
  another(options: Omit<GivenArtifacts, 'store'>): Artifacts
  /** Returns the ids of the blobs that are still stored. */
  keptBlobs(): Promise<readonly string[]>
}

type OpenStore = (now: () => number) => Promise<GatewayStore>

export async function inMemory(now: () => number): Promise<GatewayStore> {
  return new MemoryGatewayStore({ now })
}

async function onDisk(now: () => number): Promise<GatewayStore> {
  const folder = await mkdtemp(join(tmpdir(), 'artifacts-'))
  const store = new DiskGatewayStore(folder, { now })
  const close = store.close.bind(store)
  store.close = async () => {
    await close()
    await rm(folder, { recursive: true, force: true })
  }
  return store
}

export interface StoresOfTests extends AsyncDisposable {
  /** Stores by their names. Redis is included where it is installed. */
  readonly all: readonly (readonly [name: string, open: OpenStore])[]
}

export async function storesOfTests(): Promise<StoresOfTests> {
  const redis = await startRedisServer()
  let opened = 0
  const inRedis: OpenStore = async () =>
    redisStore({
      url: redis?.url ?? '',
      prefix: `artifacts-${opened++}`,
      timeoutMs: 300_000,
    })
  return {
    all: [['memory', inMemory], ['disk', onDisk], ...(redis ? [['redis', inRedis] as const] : [])],
    [Symbol.asyncDispose]: async () => redis?.[Symbol.asyncDispose](),
  }
}

export async function openWorld(open: OpenStore): Promise<World> {
  const clock = new TestClock()
  const store = await open(clock.now)
  const written = new Set<string>()
  const watched = spied(store, written)
  const another = (options: Omit<GivenArtifacts, 'store'>): Artifacts =>
    new Artifacts(artifactsOptions({ store: watched, key: 'a'.repeat(32), clock, ...options }))
  return {
    store: watched,
    clock,
    artifacts: another({}),
    another,
    async keptBlobs() {
      const found = await Promise.all(
        [...written].map(async (id) => ((await store.blobs.read(id)) ? [id] : [])),
      )
      return found.flat()
    },
    [Symbol.asyncDispose]: () => store.close(),
  }
}

/** Wraps a store. Adds the id of each blob that is written to `written`. */
function spied(store: GatewayStore, written: Set<string>): GatewayStore {
  const { records, logs, rates, blobs } = store
  return {
    records,
    logs,
    rates,
    isShared: store.isShared,
    isDurable: store.isDurable,
    blobs: {
      async write(bytes, limits) {
        const blob = await blobs.write(bytes, limits)
        written.add(blob.id)
        return blob
      },
      read: (id) => blobs.read(id),
      delete: (id) => blobs.delete(id),
    },
    isReady: () => store.isReady(),
    close: () => store.close(),
  }
}

/** Returns the text of an artifact. */
export async function textOf(artifacts: Artifacts, caller: Caller, uri: string): Promise<string> {
  const { bytes } = await artifacts.read(caller, uri)
  return Buffer.from(bytes ?? []).toString()
}

/** Error for all artifacts that a caller does not own, or that do not exist. */
export const notFound: { readonly code: string; readonly message: string } = {
  code: 'NOT_FOUND',
  message: withErrorLink('Artifact not found', 'NOT_FOUND'),
}
