#!/usr/bin/env node
import '../runtime-check.ts' // stays the first import
import { Console } from 'node:console'
import { runInProcess } from '@x/internal/command-line'
import { runCommand } from './program.ts'

// Standard output is for results, or the protocol: what graphs say to the console goes where logs go.
globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr })

await runInProcess(runCommand)
