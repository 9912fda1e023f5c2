import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** Calls to the operating system. Tests replace them. */
export const fileSystem: {
  readonly platform: NodeJS.Platform
  readonly readFile: typeof readFile
  readonly rename: typeof rename
  readonly rm: typeof rm
  readonly writeFile: typeof writeFile
} = { platform: process.platform, readFile, rename, rm, writeFile }

/** Codes of Windows for a file that another program, such as a virus scanner, has open. */
const BUSY = ['EACCES', 'EBUSY', 'EPERM']
/** Waits between the tries. Together less than the 2 s that a session store may take to read and to write. */
const WAITS_MS = [10, 20, 40, 80, 160, 320]

/**
 * Calls `work` with a file that other programs may have open. Windows refuses to rename, replace or delete such a file,
 * so the call is repeated there for up to 0.6 s. Other systems do not refuse it: there, the first error is final.
 *
 * @throws the last error of `work`
 */
export async function whileBusy<Result>(work: () => Promise<Result>): Promise<Result> {
  for (const ms of WAITS_MS) {
    try {
      return await work()
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : ''
      if (fileSystem.platform !== 'win32' || !BUSY.includes(code)) throw error
    }
    await sleep(ms)
  }
  return work()
}
