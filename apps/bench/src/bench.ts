import { bench } from './bench/command.ts'
import { runCommand } from './run-command.ts'

await runCommand('bench', bench)
