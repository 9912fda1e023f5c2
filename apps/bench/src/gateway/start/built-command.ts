import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { HOME } from '../../install.ts'
import { UserError } from '../../user-error.ts'

const ROOT = fileURLToPath(new URL('../..', `file://${HOME}`))
const COMMAND = `${ROOT}packages/mcp-gateway/dist/cli.js`

/**
 * The command as it is published: built, unless that was done from the same files. Stripping types takes time
 * that its users do not pay.
 *
 * @throws UserError if it cannot be built
 */
export async function builtCommand(): Promise<string> {
  const args = ['--yes', 'pnpm@12', 'exec', 'turbo', 'run', 'build', '--filter=@x/mcp-gateway']
  const child = spawn('npx', args, { cwd: ROOT, stdio: ['ignore', 2, 2] })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new UserError('The gateway could not be built: see what turbo says above')
  return COMMAND
}
