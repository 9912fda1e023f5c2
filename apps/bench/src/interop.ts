import { interop } from './interop/command.ts'
import { runCommand } from './run-command.ts'

await runCommand('interop', interop)
