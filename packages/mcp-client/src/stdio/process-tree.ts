import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { settledWithin } from './settled-within.ts'

export interface EndTreeOptions {
  readonly child: ChildProcess
  /** Settles when the child itself has exited. */
  readonly exited: Promise<unknown>
  /** What each step leaves it, in milliseconds. @default 2000 */
  readonly graceMs?: number | undefined
}

const GRACE_MS = 2000
/** Nobody can refuse this one, but in a container where nobody collects orphans they stay for ever as zombies. */
const KILL_MS = 500
const LOOK_AGAIN_MS = 20
const IS_WINDOWS = process.platform === 'win32'

/**
 * Ends a child and all that it started: its input ends, which a server takes for its cue (2025-11-25,
 * lifecycle, shutdown); then SIGTERM, then SIGKILL, to its whole process group. Resolves when they are gone.
 */
export async function endTree(options: EndTreeOptions): Promise<void> {
  const { child, exited, graceMs = GRACE_MS } = options
  child.stdin?.end()
  await settledWithin(exited, graceMs)
  if (isAlive(child)) {
    signalTree(child, 'SIGTERM')
    await treeGone(options, graceMs)
  }
  if (isAlive(child)) {
    signalTree(child, 'SIGKILL')
    await treeGone(options, KILL_MS)
  }
  // What has left the group may hold the other ends; ours must not keep this process alive.
  for (const stream of child.stdio) stream?.destroy()
}

/** Nothing tells when a process that is not our own child has exited: one can only look. */
async function treeGone({ child, exited }: EndTreeOptions, ms: number): Promise<void> {
  const endsAt = performance.now() + ms
  await settledWithin(exited, ms)
  while (isAlive(child) && performance.now() < endsAt) await sleep(LOOK_AGAIN_MS)
}

/** Whether anything of the tree is left; on Windows, whether the child itself is. */
function isAlive(child: ChildProcess): boolean {
  const { pid } = child
  if (pid === undefined) return false
  const isRunning = child.exitCode === null && child.signalCode === null
  if (IS_WINDOWS || isRunning) return isRunning
  try {
    return process.kill(-pid, 0)
  } catch (error) {
    // Not ours to signal, such as one that became another user: nothing can be done about it.
    return (
      error instanceof Error && 'code' in error && error.code !== 'ESRCH' && error.code !== 'EPERM'
    )
  }
}

/** The child is the leader of a process group of its own; Windows has none, but walks the tree. */
function signalTree({ pid }: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (pid === undefined) return
  if (IS_WINDOWS) {
    const kill = spawn('taskkill', ['/pid', String(pid), '/T', '/F'], { stdio: 'ignore' })
    kill.on('error', () => {})
    return
  }
  try {
    process.kill(-pid, signal)
  } catch {
    // It was faster.
  }
}

const guarded = new Set<ChildProcess>()

function endAll(): void {
  for (const child of guarded) signalTree(child, 'SIGTERM')
}

/** A process that ends without having disposed of its client leaves no server behind. Returns its undo. */
export function endWithProcess(child: ChildProcess): () => void {
  if (guarded.size === 0) process.on('exit', endAll)
  guarded.add(child)
  return () => {
    guarded.delete(child)
    if (guarded.size === 0) process.off('exit', endAll)
  }
}
