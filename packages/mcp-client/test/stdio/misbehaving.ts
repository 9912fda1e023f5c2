import { fileURLToPath } from 'node:url'
import type { CommandConfig } from '../../src/index.ts'

const SCRIPT = fileURLToPath(new URL('misbehaving-server.mjs', import.meta.url))

/** The config of a server that does one thing wrong. */
export function misbehaving(...args: readonly string[]): CommandConfig {
  return { command: process.execPath, args: [SCRIPT, ...args] }
}

/** Whether a process, or its zombie, is there. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
