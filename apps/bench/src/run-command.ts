import { UserError } from './user-error.ts'

/** Runs a command to its end: its exit code, or one line about what the user can put right. */
export async function runCommand(
  name: string,
  command: (args: readonly string[]) => Promise<number>,
): Promise<void> {
  try {
    const args = process.argv.slice(2).filter((arg) => arg !== '--') // pnpm hands it on
    process.exitCode = await command(args)
  } catch (error) {
    if (error instanceof UserError) process.stderr.write(`${name}: ${error.message}\n`)
    else console.error(error)
    process.exitCode = 1
  }
}
