import { fileURLToPath } from 'node:url'
import { McpClient } from '../../src/index.ts'
import type { McpClientOptions, McpServerConfig } from '../../src/index.ts'
import type { CommandConfig } from '../../src/server-config.ts'

const SCRIPT = fileURLToPath(new URL('misbehaving-server.mjs', import.meta.url))

/** Returns the config of a server with one fault. */
export function misbehaving(...args: readonly string[]): CommandConfig {
  return { command: process.execPath, args: [SCRIPT, ...args] }
}

/** Returns a client that waits for a program which starts slowly, because the machine is busy. */
export function patientClient(config: McpServerConfig, options?: McpClientOptions): McpClient {
  return new McpClient(config, { handshakeMs: 240_000, ...options })
}

/** Returns whether a process or its zombie exists. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
