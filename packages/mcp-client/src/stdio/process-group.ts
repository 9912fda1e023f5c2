import { fulfilledWithin } from '@x/internal'
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { win32 } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Parts of the operating system that end processes. Tests replace them. */
export const system: {
  readonly platform: NodeJS.Platform
  readonly kill: (pid: number, signal: NodeJS.Signals | 0) => boolean
  /** Runs a program, and ignores its result. Blocks for at most 2 s if this process exits. */
  readonly run: (file: string, args: readonly string[], isExiting: boolean) => void
} = {
  platform: process.platform,
  kill: (pid, signal) => process.kill(pid, signal),
  run(file, args, isExiting) {
    const options = { stdio: 'ignore', windowsHide: true, timeout: 2000 } as const
    if (isExiting) spawnSync(file, args, options)
    else spawn(file, args, options).on('error', () => {})
  },
}

/** `ChildProcess` with the method that Node calls to start the process. */
type Spawned = ChildProcess & { spawn(options: SpawnOptions): number }

/**
 * Makes the child that `start` creates synchronously the leader of a process group, which `StdioClientTransport`
 * cannot. A wrapper such as `npx` starts the server as its own child: only a signal to the group reaches it. On Windows,
 * the child gets no window, which earlier versions of the SDK open outside of Electron (typescript-sdk#1638).
 *
 * Node announces each child on a diagnostics channel, before it starts the process. Without the announcement, the
 * child stays in the group of this process, and only the child itself is ended.
 */
export function startInGroup<T>(start: () => T): { result: T; child: ChildProcess | undefined } {
  let child: ChildProcess | undefined
  const lead = (message: unknown): void => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- documented by Node, except `spawn()`
    const { process: created } = message as { process: Spawned }
    child = created
    const original = created.spawn.bind(created)
    created.spawn = (options) => {
      return original({ ...options, detached: system.platform !== 'win32', windowsHide: true })
    }
  }
  subscribe('child_process', lead)
  try {
    const result = start()
    return { result, child }
  } finally {
    unsubscribe('child_process', lead)
  }
}

/** Time after SIGTERM, and on Windows before `taskkill`. Less than the 2 s of `StdioClientTransport`. */
const GRACE_MS = 1500
/** Time after SIGKILL. In a container without an init process, killed processes stay as zombies. */
const KILL_MS = 500
const POLL_MS = 20

/**
 * Ends a child and its process group, and resolves when all have exited. `close` ends the child itself: it closes
 * the input, then sends SIGTERM and SIGKILL. The rest of the group gets both signals after the child has exited.
 * Windows has no groups: a child that does not exit with its input is ended by `taskkill`, with its tree.
 */
export async function endGroup(child: ChildProcess, close: () => Promise<void>): Promise<void> {
  const exited = new Promise<void>((resolve) => {
    if (isRunning(child)) child.once('exit', () => resolve())
    else resolve()
  })
  const closed = close()
  if (system.platform === 'win32') {
    await fulfilledWithin(exited, GRACE_MS)
    if (isRunning(child)) signalGroup(child, 'SIGKILL')
  }
  await Promise.race([exited, closed])
  const steps = [
    ['SIGTERM', GRACE_MS],
    ['SIGKILL', KILL_MS],
  ] as const
  for (const [signal, ms] of steps) {
    if (!hasGroup(child)) break
    signalGroup(child, signal)
    const endsAt = performance.now() + ms
    // Polls, because no event reports the exit of a process that is not our own child.
    while (hasGroup(child) && performance.now() < endsAt) await sleep(POLL_MS)
  }
  // A process that left the group may still hold the other ends. Open pipes would keep this process alive.
  for (const stream of child.stdio) stream?.destroy()
  await closed
}

function isRunning({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid !== undefined && exitCode === null && signalCode === null
}

/** Returns whether a process of the group exists. Always false on Windows. */
function hasGroup({ pid }: ChildProcess): boolean {
  if (pid === undefined || system.platform === 'win32') return false
  try {
    return system.kill(-pid, 0)
  } catch {
    return false // It exited, or became another user and cannot be signalled.
  }
}

function signalGroup(
  { pid }: ChildProcess,
  signal: 'SIGTERM' | 'SIGKILL',
  isExiting = false,
): void {
  if (pid === undefined) return
  if (system.platform === 'win32') {
    // Windows searches a bare name in the current folder first.
    const taskkill = win32.join(
      process.env['SYSTEMROOT'] ?? 'C:\\Windows',
      'System32',
      'taskkill.exe',
    )
    return system.run(taskkill, ['/pid', String(pid), '/T', '/F'], isExiting)
  }
  try {
    system.kill(-pid, signal)
  } catch {
    // It exited first.
  }
}

const guarded = new Set<ChildProcess>()

function endAll(): void {
  for (const child of guarded) signalGroup(child, 'SIGTERM', true)
}

/** Ends the group of the child when this process exits without `dispose()`. Returns the undo function. */
export function endWithProcess(child: ChildProcess): () => void {
  if (guarded.size === 0) process.on('exit', endAll)
  guarded.add(child)
  return () => {
    guarded.delete(child)
    if (guarded.size === 0) process.off('exit', endAll)
  }
}
