#!/usr/bin/env node
import '../runtime-check.ts' // stays the first import
import { Console } from 'node:console'
import nodeModule from 'node:module'
import { needsOwnProcess, protocolOutput, runInOwnProcess } from './protocol-output.ts'

// Standard output is for results, or the protocol: what graphs say to the console goes where logs go.
globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr })

// Errors of graphs in TypeScript name the lines of their source.
nodeModule.setSourceMapsSupport(true, { nodeModules: false, generatedCode: false })

if (needsOwnProcess(process.argv)) process.exitCode = await runInOwnProcess()
else {
  const stdout = protocolOutput()
  const { runInProcess } = await import('@x/internal/command-line')
  const { runCommand } = await import('./program.ts')
  await runInProcess(runCommand, stdout)
}
