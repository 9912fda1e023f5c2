import type { ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { thisSystem, windowsProgram } from './child-system.ts'
import type { ChildSystem } from './child-system.ts'
import { settledWithin } from './settled-within.ts'

export interface EndTreeOptions {
  readonly child: ChildProcess
  /** Settles when the child itself has exited. */
  readonly exited: Promise<unknown>
  /** What each step leaves it, in milliseconds. @default 2000 */
  readonly graceMs?: number | undefined
  /** @default that of this process */
  readonly system?: ChildSystem | undefined
}

const GRACE_MS = 2000
/** Nobody can refuse this one, but in a container where nobody collects orphans they stay for ever as zombies. */
const KILL_MS = 500
const LOOK_AGAIN_MS = 20

/**
 * Ends a child and all that it started: its input ends, which a server takes for its cue (2025-11-25,
 * lifecycle, shutdown); then SIGTERM, then SIGKILL, to its whole process group. Resolves when they are gone.
 * Windows knows no such signals: there, what does not end by itself is ended by force, with all below it.
 */
export async function endTree(options: EndTreeOptions): Promise<void> {
  const { child, exited, graceMs = GRACE_MS, system = thisSystem } = options
  child.stdin?.end()
  await settledWithin(exited, graceMs)
  if (isAlive(child, system)) {
    signalTree(child, 'SIGTERM', system)
    await treeGone(options, graceMs)
  }
  if (isAlive(child, system)) {
    signalTree(child, 'SIGKILL', system)
    await treeGone(options, KILL_MS)
  }
  // What has left the group may hold the other ends; ours must not keep this process alive.
  for (const stream of child.stdio) stream?.destroy()
}

/** Nothing tells when a process that is not our own child has exited: one can only look. */
async function treeGone(
  { child, exited, system = thisSystem }: EndTreeOptions,
  ms: number,
): Promise<void> {
  const endsAt = performance.now() + ms
  await settledWithin(exited, ms)
  while (isAlive(child, system) && performance.now() < endsAt) await sleep(LOOK_AGAIN_MS)
}

/** Whether anything of the tree is left; on Windows, whether the child itself is. */
function isAlive(child: ChildProcess, { platform, kill }: ChildSystem): boolean {
  const { pid } = child
  if (pid === undefined) return false
  const isRunning = child.exitCode === null && child.signalCode === null
  if (platform === 'win32' || isRunning) return isRunning
  try {
    return kill(-pid, 0)
  } catch (error) {
    // Not ours to signal, such as one that became another user: nothing can be done about it.
    return (
      error instanceof Error && 'code' in error && error.code !== 'ESRCH' && error.code !== 'EPERM'
    )
  }
}

/** The child is the leader of a process group of its own; Windows has none, but walks the tree. */
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
    // It was faster.
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

/** A process that ends without having disposed of its client leaves no server behind. Returns its undo. */
export function endWithProcess(child: ChildProcess, system: ChildSystem = thisSystem): () => void {
  if (guarded.size === 0) process.on('exit', endAll)
  guarded.set(child, system)
  return () => {
    guarded.delete(child)
    if (guarded.size === 0) process.off('exit', endAll)
  }
}
