import { faultOf } from '../server/access.ts'
import type { DebugStateTokenGrant } from '../server/access.ts'
import { CommandError } from './command-error.ts'

/**
 * Reads a list of tokens: one a line, `<token> <agentId>[,<agentId>…]`, where `*` is every agent. Empty lines
 * and those that start with `#` are left out.
 *
 * @throws CommandError that names `source` and the line, never a token
 */
export function tokenListFrom(text: string, source: string): readonly DebugStateTokenGrant[] {
  const grants: DebugStateTokenGrant[] = []
  const lineOf = new Map<string, number>()
  for (const [index, line] of text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .entries()) {
    const [token = '', agents, ...rest] = line.trim().split(/\s+/)
    if (token === '' || token.startsWith('#')) continue
    const number = index + 1
    const fault = (what: string): CommandError =>
      new CommandError(`${source}, line ${number}: ${what}`)
    if (agents === undefined) throw fault(`after the token, name its agents, or * for all. ${FORM}`)
    if (rest.length > 0) throw fault(`there is a space too many. ${FORM}`)
    const earlier = lineOf.get(token)
    if (earlier !== undefined)
      throw fault(`this is the token of line ${earlier}: use one line for both`)
    lineOf.set(token, number)
    const grant = { token, agentIds: agents === '*' ? agents : agents.split(',') } as const
    const wrong = faultOf(grant)
    if (wrong !== undefined) throw fault(wrong)
    grants.push(grant)
  }
  if (grants.length === 0) throw new CommandError(`${source} holds no token. ${FORM}`)
  return grants
}

const FORM = 'Each line is: <token> <agentId>,<agentId>'
