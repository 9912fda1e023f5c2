import type { ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fulfilledWithin } from '@x/internal'
import { thisSystem, windowsProgram } from './start-child.ts'
import type { ChildSystem } from './start-child.ts'

export interface EndTreeOptions {
  readonly child: ChildProcess
  /** Settles when the child itself has exited. */
  readonly exited: Promise<unknown>
  /** Time for each step, in milliseconds. @default 2000 */
  readonly graceMs?: number | undefined
  /** @default that of this process */
  readonly system?: ChildSystem | undefined
}

const GRACE_MS = 2000
/** Time after SIGKILL. In a container without an init process, killed processes stay as zombies. */
const KILL_MS = 500
const POLL_MS = 20

/**
 * Ends a child and all processes that it started, and resolves when they have exited. It closes the child's
 * input, which asks a server to exit (2025-11-25, lifecycle, shutdown); then sends SIGTERM and SIGKILL to the
 * process group. Windows has no such signals: a child that does not exit is ended by force, with its tree.
 */
export async function endTree(options: EndTreeOptions): Promise<void> {
  const { child, exited, graceMs = GRACE_MS, system = thisSystem } = options
  child.stdin?.end()
  await fulfilledWithin(exited, graceMs)
  if (isAlive(child, system)) {
    signalTree(child, 'SIGTERM', system)
    await waitForTree(options, graceMs)
  }
  if (isAlive(child, system)) {
    signalTree(child, 'SIGKILL', system)
    await waitForTree(options, KILL_MS)
  }
  // A process that left the group may still hold the other ends. Open pipes would keep this process alive.
  for (const stream of child.stdio) stream?.destroy()
}

/** Polls, because no event reports the exit of a process that is not our own child. */
async function waitForTree(
  { child, exited, system = thisSystem }: EndTreeOptions,
  ms: number,
): Promise<void> {
  const endsAt = performance.now() + ms
  await fulfilledWithin(exited, ms)
  while (isAlive(child, system) && performance.now() < endsAt) await sleep(POLL_MS)
}

/** Returns whether a process of the tree runs; on Windows, whether the child itself runs. */
function isAlive(child: ChildProcess, { platform, kill }: ChildSystem): boolean {
  const { pid } = child
  if (pid === undefined) return false
  const isRunning = child.exitCode === null && child.signalCode === null
  if (platform === 'win32' || isRunning) return isRunning
  try {
    return kill(-pid, 0)
  } catch (error) {
    // EPERM: the process became another user, and cannot be signalled.
    return (
      error instanceof Error && 'code' in error && error.code !== 'ESRCH' && error.code !== 'EPERM'
    )
  }
}

/** Signals the process group that the child leads. Windows has no groups; `taskkill` walks the tree. */
function signalTree(
  { pid }: ChildProcess,
  signal: 'SIGTERM' | 'SIGKILL',
  system: ChildSystem,
): void {
  if (pid === undefined) return
  if (system.platform === 'win32') return system.run(...taskkill(pid, system))
  try {
    system.kill(-pid, signal)
  } catch {
    // It exited first.
  }
}

function taskkill(pid: number, system: ChildSystem): [file: string, args: readonly string[]] {
  return [windowsProgram('taskkill.exe', system), ['/pid', String(pid), '/T', '/F']]
}

const guarded = new Map<ChildProcess, ChildSystem>()

function endAll(): void {
  for (const [child, system] of guarded) {
    if (system.platform !== 'win32') signalTree(child, 'SIGTERM', system)
    else if (child.pid !== undefined) system.runBeforeExit(...taskkill(child.pid, system))
  }
}

/** Ends the child when this process exits without `dispose()`. Returns the undo function. */
export function endWithProcess(child: ChildProcess, system: ChildSystem = thisSystem): () => void {
  if (guarded.size === 0) process.on('exit', endAll)
  guarded.set(child, system)
  return () => {
    guarded.delete(child)
    if (guarded.size === 0) process.off('exit', endAll)
  }
}
