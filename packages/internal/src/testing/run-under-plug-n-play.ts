import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { sourceNode } from './source-node.ts'

const PRELOAD = new URL('plug-n-play.ts', import.meta.url).href

/** Runs a module in a process with the file functions of Yarn's Plug'n'Play, and returns what it prints. */
export async function runUnderPlugNPlay(script: string, cwd: string): Promise<string> {
  const flags = ['--conditions=mcp-source', '--no-warnings', `--import=${PRELOAD}`]
  const args = [...flags, '--input-type=module', '--eval', script]
  const { stdout } = await promisify(execFile)(sourceNode, args, { cwd })
  return stdout.trim()
}
