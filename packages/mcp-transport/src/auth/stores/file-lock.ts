import { open, rm, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

export interface FileLockOptions {
  /** After this, whoever made it is taken for dead, in milliseconds. @default 60_000 */
  readonly staleMs?: number | undefined
  /** The longest wait for it; then the work is done without it, in milliseconds. @default 45_000 */
  readonly waitMs?: number | undefined
}

const POLL_MS = 50

/**
 * Does work while no other process does the like: whoever can make the file `path` is next. A lock that
 * cannot be had in time is no reason to fail: it only makes collisions rare.
 */
export async function withFileLock<Result>(
  path: string,
  work: () => Promise<Result>,
  options: FileLockOptions = {},
): Promise<Result> {
  const { staleMs = 60_000, waitMs = 45_000 } = options
  const isOurs = await acquire(path, { staleMs, waitMs })
  try {
    return await work()
  } finally {
    if (isOurs) await rm(path, { force: true })
  }
}

async function acquire(
  path: string,
  { staleMs, waitMs }: { staleMs: number; waitMs: number },
): Promise<boolean> {
  const until = performance.now() + waitMs
  while (!(await make(path))) {
    if (performance.now() >= until) return false
    const age = await ageOf(path)
    if (age !== undefined && age > staleMs) await rm(path, { force: true })
    else if (age !== undefined) await sleep(POLL_MS)
  }
  return true
}

async function make(path: string): Promise<boolean> {
  try {
    await (await open(path, 'wx', 0o600)).close()
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

/** Undefined if it is gone by now. */
async function ageOf(path: string): Promise<number | undefined> {
  try {
    return Date.now() - (await stat(path)).mtimeMs
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
