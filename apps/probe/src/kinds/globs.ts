// Patterns of tools and names of agents that are made for each other. Each must end at once: see the limit of a probe.
import { createGateway, GatewayError } from '@x/mcp-gateway'
import { AgentsAtHand, echo } from '../../../../packages/mcp-gateway/test/agents-at-hand.ts'
import { at, modern } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, startTarget } from '../target.ts'

const a = (count: number): string => 'a'.repeat(count)

/** Patterns with a name that needs the most steps, and whether they match. */
const SLOW: readonly (readonly [pattern: string, name: string, isMatched: boolean])[] = [
  ['*a*a*a*a*a*a*a*a*a*a*a*a*b', a(250), false],
  [`${'a*'.repeat(120)}b`, a(250), false],
  [`${'*a'.repeat(120)}*`, a(250), true],
  [`${'*a'.repeat(120)}b`, `${a(249)}c`, false],
  [`*${'aa*'.repeat(80)}`, 'ab'.repeat(125), false],
  [`${'a*b*'.repeat(60)}c`, 'ab'.repeat(125), false],
  ['*'.repeat(256), a(250), true],
  [`${'*'.repeat(255)}x`, a(250), false],
  [`x${'*'.repeat(255)}`, a(250), false],
  [`${a(120)}*${a(120)}*`, a(239), false],
  [`*${a(100)}*${a(100)}*`, `${a(99)}b${a(150)}`, false],
  ['*?*', 'a?b', true],
  ['*(a+)+*', 'x(a+)+', true],
  ['*[', '[', true],
  ['*(', 'x(', true],
  ['*{1,99999}*', a(250), false],
  ['(a+)+*b', a(250), false],
  ['*[a-z]*', a(250), false],
  ['*|*', a(250), false],
  ['*😀*', '😀', true],
  ['*e\u0301*', '\u00e9', false],
  ['__proto__*', '__proto__x', true],
  ['constructor', 'constructor', true],
  ['toString', 'echo', false],
  ['*ECHO', 'echo', false],
  [' echo', 'echo', false],
]

/** Patterns that are refused at the start, with the place of the setting. */
const REFUSED: Readonly<Record<string, string>> = {
  'a regular expression with nested groups': '^(a+)+$',
  'a regular expression of dots': '.*a.*b',
  'an escape': 'a\\b',
  'a dollar': 'a$',
  'an empty text': '',
  '257 characters': a(257),
  'a million characters': '*a'.repeat(500_000),
}

async function listedWith(setting: 'include' | 'exclude', pattern: string, name: string) {
  await using stack = new AsyncDisposableStack()
  const agents = new AgentsAtHand()
  agents.join('x', echo, { name })
  const target = await startTarget(stack, { sources: [agents], tools: { [setting]: [pattern] } })
  const tools: unknown = at(await modern(target, 'tools/list'), 'result', 'tools')
  return Array.isArray(tools) ? tools.length : -1
}

/** Many patterns, and many names. */
async function manyProbes(): Promise<readonly Probe[]> {
  const count = async (patterns: readonly string[], names: readonly string[]): Promise<number> => {
    await using stack = new AsyncDisposableStack()
    const agents = new AgentsAtHand()
    for (const [n, name] of names.entries()) agents.join(`x${n}`, echo, { name })
    const target = await startTarget(stack, { sources: [agents], tools: { include: patterns } })
    await target.gateway.registry.start()
    return target.gateway.registry.plan().tools.length
  }
  return [
    probe(
      '300 patterns and 300 names',
      () =>
        count(
          Array.from({ length: 300 }, (_, n) => `${'*a'.repeat(100)}${n}b`),
          Array.from({ length: 300 }, (_, n) => `${a(240)}${n}`),
        ),
      (tools) => tools === 0,
    ),
    probe(
      '300 names that differ at their ends only',
      () =>
        count(
          ['*'],
          Array.from({ length: 300 }, (_, n) => `${a(240)}${n}`),
        ),
      (tools) => tools === 300,
    ),
    probe(
      '300 names that are the same tool name',
      () =>
        count(
          ['*'],
          Array.from({ length: 300 }, (_, n) => `A${'-'.repeat(n % 200)}`),
        ),
      (tools) => tools === 300,
    ),
  ]
}

export const globs: Kind = {
  name: 'globs',
  rule: 'no pattern and no name keeps the gateway busy',
  async prepare(stack) {
    const target = await startTarget(stack)
    return {
      probes: [
        ...(['include', 'exclude'] as const).flatMap((setting) =>
          SLOW.map(([pattern, name, isMatched]) =>
            probe(
              `${setting} "${pattern.slice(0, 24)}" and "${name.slice(0, 12)}"`,
              () => listedWith(setting, pattern, name),
              (tools) => tools === (isMatched === (setting === 'include') ? 1 : 0),
            ),
          ),
        ),
        ...Object.entries(REFUSED).map(([name, pattern]) =>
          probe(
            `refused: ${name}`,
            () => {
              try {
                createGateway({ log: false, tools: { exclude: ['ok', pattern] } })
                return 'taken'
              } catch (error) {
                return GatewayError.is(error)
                  ? `${error.code} ${error.message.slice(0, 500)}`
                  : String(error)
              }
            },
            (seen) => /^CONFIG .*tools\.exclude\[1\]/.test(seen),
          ),
        ),
        ...(await manyProbes()),
      ],
      honest: honestClients('a gateway', target),
    }
  },
}
