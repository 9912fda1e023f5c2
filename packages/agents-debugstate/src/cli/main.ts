#!/usr/bin/env node
import '../runtime-check.ts' // stays the first import
import { runInProcess } from '@x/internal/command-line'
import { runCommand } from './program.ts'

await runInProcess(runCommand)
