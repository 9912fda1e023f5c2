import { interop } from './interop/command.ts'
import { runCommand } from './cli.ts'

await runCommand('interop', interop)
