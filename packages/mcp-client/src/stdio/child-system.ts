import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcessWithoutNullStreams, SpawnOptionsWithoutStdio } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { win32 } from 'node:path'
import { valueIn } from './child-environment.ts'

/** What the starting and the ending of programs need of the system that they run on. */
export interface ChildSystem {
  readonly platform: NodeJS.Platform
  /** That of this process. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Whether there is a file that can be executed. */
  readonly isExecutable: (file: string) => boolean
  readonly start: (
    file: string,
    args: readonly string[],
    options: SpawnOptionsWithoutStdio,
  ) => ChildProcessWithoutNullStreams
  /** Runs a helper; nobody waits for it, and nobody hears of its failure. */
  readonly run: (file: string, args: readonly string[]) => void
  /** The same for a process that is about to exit, which no helper would outlive. At most 2 s. */
  readonly runBeforeExit: (file: string, args: readonly string[]) => void
  /** As `process.kill`: a negative id is a process group. */
  readonly kill: (pid: number, signal: NodeJS.Signals | 0) => boolean
}

const BEFORE_EXIT_MS = 2000

export const thisSystem: ChildSystem = {
  platform: process.platform,
  environment: process.env,
  isExecutable(file) {
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  },
  start: (file, args, options) => spawn(file, [...args], { ...options, stdio: 'pipe' }),
  run(file, args) {
    spawn(file, [...args], { stdio: 'ignore', windowsHide: true }).on('error', () => {})
  },
  runBeforeExit(file, args) {
    spawnSync(file, [...args], { stdio: 'ignore', windowsHide: true, timeout: BEFORE_EXIT_MS })
  },
  kill: (pid, signal) => process.kill(pid, signal),
}

/** A program of Windows, by its full path: a bare name is looked for where this process runs first. */
export function windowsProgram(
  name: string,
  { environment }: Pick<ChildSystem, 'environment'>,
): string {
  return win32.join(valueIn(environment, 'SYSTEMROOT', 'win32') ?? 'C:\\Windows', 'System32', name)
}
