#!/usr/bin/env node
import '../runtime-check.ts' // stays the first import
import { runCommand } from './program.ts'

// The reader of our output may close it early: `debugstate list … | head -1`.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.exitCode = await runCommand({
  args: process.argv.slice(2),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  onSignal: (signal, listener) => {
    process.on(signal, listener)
    return () => void process.off(signal, listener)
  },
  exit: (code) => process.exit(code),
})
