#!/usr/bin/env node
import '../runtime-check.ts' // stays the first import
import { Console } from 'node:console'

import { runCommand } from './program.ts'

// Standard output is for results, or the protocol: what graphs say to the console goes where logs go.
globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr })

// Who reads our output may go away: `mcp-gateway tools … | head -1`.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.exitCode = await runCommand({
  args: process.argv.slice(2),
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  onSignal: (signal, listener) => {
    process.on(signal, listener)
    return () => void process.off(signal, listener)
  },
  exit: (code) => process.exit(code),
})
