import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { startModernServer, startLegacyServer } from '@x/mcp-testing'
import { expect } from 'vitest'
import type { Remains } from './leaking-process.ts'

/** Runs `leaking-process.ts`. Resolves when it has exited, which it does when nothing keeps it alive. */
export async function runLeakingProcess(
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
  connections: 0,
  handles: [],
  abortListeners: 0,
  dispatcherListeners: 0,
}

/** A server that the process can disturb. */
interface TroubledServer extends AsyncDisposable {
  readonly url: string
  count(method: string): number
  /** Returns its sessions, or its listeners. */
  remaining(): readonly unknown[]
  lose(): unknown
  crash(): unknown
}

export const eras: Readonly<Record<string, () => Promise<TroubledServer>>> = {
  async 'with sessions'() {
    const server = await startLegacyServer({ answerAs: 'sse' })
    return Object.assign(server, {
      remaining: () => server.sessions,
      lose: () => server.forgetSessions(),
      crash: () => server.restart(),
    })
  },
  async 'without sessions'() {
    const server = await startModernServer()
    return Object.assign(server, {
      remaining: () => server.listeners,
      lose: () => server.dropListeners(),
      crash: () => server.restart(),
    })
  },
}
