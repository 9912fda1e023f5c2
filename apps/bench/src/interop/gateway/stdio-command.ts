import { fileURLToPath } from 'node:url'

/** Starts the gateway at the other end of a pipe. */
export const STDIO_COMMAND = {
  command: process.execPath,
  args: ['--conditions=mcp-source', fileURLToPath(new URL('stdio-program.ts', import.meta.url))],
}
