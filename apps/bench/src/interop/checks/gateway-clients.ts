import type { Check } from '../check.ts'
import type { ClientKind } from '../gateway/client-kind.ts'
import { serveInterop } from '../gateway/interop-gateway.ts'
import { KINDS } from '../gateway/kinds.ts'
import { meet, usesOf } from '../gateway/meeting.ts'
import { STDIO_COMMAND } from '../gateway/stdio-command.ts'
import { USES } from '../gateway/uses.ts'
import type { Use } from '../gateway/uses.ts'

/** All uses, and one or two starts of the program. */
const STDIO_MS = 30_000

/** The gateway, with each client over HTTP and at the other end of a pipe. */
export const gatewayClients: readonly Check[] = KINDS.flatMap((kind) => {
  const group = `${kind.name} at the gateway`
  const uses = usesOf(kind, USES)
  return [
    ...uses.map((use) => ({ group, name: use.name, run: () => overHttp(kind, use) })),
    { group, name: 'does the same over stdio', ms: STDIO_MS, run: () => overStdio(kind, uses) },
  ]
})

async function overHttp(kind: ClientKind, { withoutAnswers = false, run }: Use): Promise<void> {
  await using gateway = await serveInterop()
  await meet({ kind, target: { url: gateway.url }, hasAnswers: !withoutAnswers }, run)
}

/** One program for all of it: starting one takes longer than the rest. */
async function overStdio(kind: ClientKind, uses: readonly Use[]): Promise<void> {
  await meet({ kind, target: STDIO_COMMAND }, async (client, seen) => {
    for (const { name, withoutAnswers = false, run } of uses) {
      if (withoutAnswers) continue
      await run(client, seen).catch((cause: unknown) => {
        throw new Error(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`, {
          cause,
        })
      })
    }
  })
}
