#!/usr/bin/env node
import './runtime-check.ts' // stays the first import
import { runInProcess } from '@x/internal/command-line'
import { runCommand } from './program.ts'
import type { Versions } from './project.ts'

/** Versions of the workspace, which the build writes into the code. */
declare const VERSIONS: Versions

await runInProcess((context) => runCommand(context, VERSIONS))
