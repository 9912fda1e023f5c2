import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { startModernServer, startLegacyServer } from '@x/mcp-testing'
import { expect } from 'vitest'
import type { Remains } from './leaking-process.ts'

/** Runs `leaking-process.ts`. Resolves when it has exited, which it does when nothing keeps it alive. */
export async function remainsOf(
  use: string,
  server?: TroubledServer,
): Promise<{ readonly before: Remains; readonly alive: Remains; readonly after: Remains }> {
  const script = fileURLToPath(new URL('leaking-process.ts', import.meta.url))
  const flags = ['--expose-gc', '--disable-warning=ExperimentalWarning']
  const args = [...flags, '--conditions=mcp-source', script, use, server?.url ?? '']
  const child = spawn(sourceNode, args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  child.on('message', (what) => (what === 'lose' ? server?.lose() : server?.crash()))
  const said: unknown[] = []
  child.stdout?.on('data', (chunk) => said.push(chunk))
  expect(await once(child, 'close')).toEqual([0, null])
  return JSON.parse(said.join('')) as { before: Remains; alive: Remains; after: Remains }
}

export const NOTHING: Partial<Remains> = {
  transports: 0,
  handles: [],
  abortListeners: 0,
  dispatcherListeners: 0,
}

/** A server that the process can disturb. */
interface TroubledServer extends AsyncDisposable {
  readonly url: string
  /** Number of its sessions, or of its listeners. */
  readonly remaining: readonly unknown[]
  count(method: string): number
  lose(): unknown
  crash(): unknown
}

async function startWithSessions(): Promise<TroubledServer> {
  const server = await startLegacyServer({ answerAs: 'sse' })
  return {
    url: server.url,
    get remaining() {
      return server.sessions
    },
    count: (method) => server.count(method),
    lose: () => server.forgetSessions(),
    crash: () => server.restart(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function startWithoutSessions(): Promise<TroubledServer> {
  const server = await startModernServer()
  return {
    url: server.url,
    get remaining() {
      return server.listeners
    },
    count: (method) => server.count(method),
    lose: () => server.dropListeners(),
    crash: () => server.restart(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

export const eras: Readonly<Record<string, () => Promise<TroubledServer>>> = {
  'with sessions': startWithSessions,
  'without sessions': startWithoutSessions,
}
