import { conformance } from './conformance/command.ts'
import { runCommand } from './cli.ts'

await runCommand('conformance', conformance)
