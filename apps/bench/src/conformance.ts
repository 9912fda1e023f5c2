import { conformance } from './conformance/command.ts'
import { runCommand } from './run-command.ts'

await runCommand('conformance', conformance)
