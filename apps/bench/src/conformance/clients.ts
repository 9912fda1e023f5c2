import type { ClientKind } from './client/suite-client.ts'
import type { Scenario } from './required-scenarios.ts'
import type { ClientScenario } from './run-client-scenario.ts'

/** The versions of the SDK that are run, as on the command line. */
export const CLIENTS = ['v1', 'v2'] as const

export type ClientVersion = (typeof CLIENTS)[number]

const KINDS: Readonly<Record<ClientVersion, readonly ClientKind[]>> = {
  v1: ['v1'],
  v2: ['v2', 'v2-modern'],
}

/** Client scenarios of authorization extensions. The suite does not count them for any revision. */
export const EXTENSIONS: readonly (Scenario & { readonly isExtension: true })[] = [
  'auth/client-credentials-basic',
  'auth/client-credentials-jwt',
  'auth/enterprise-managed-authorization',
  'auth/wif-jwt-bearer',
  'auth/dpop',
  'auth/dpop-nonce',
].flatMap((name) => [
  { revision: '2025-11-25' as const, name, isExtension: true as const },
  { revision: '2026-07-28' as const, name, isExtension: true as const },
])

/** A scenario that says nothing about our transport under this client, because it never gets there. */
export interface Inapplicable extends ClientScenario {
  readonly reason: string
}

/** What a client cannot be run with, and why. By scenario; shown with every run, counted nowhere. */
const INAPPLICABLE: Readonly<Record<ClientKind, Readonly<Record<string, string>>>> = {
  v1: {},
  v2: {},
  'v2-modern': {
    'sep-2322-client-request-state':
      'The suite answers one call without a resultType, as servers of older revisions do. In this mode the Client refuses that by itself, on its own transport too.',
  },
}

export interface Plan {
  readonly runs: readonly ClientScenario[]
  readonly inapplicable: readonly Inapplicable[]
}

/** Which client acts in which scenario. The modern mode is run where there is a modern server. */
export function planFor(versions: readonly ClientVersion[], scenarios: readonly Scenario[]): Plan {
  const kinds = CLIENTS.filter((version) => versions.includes(version)).flatMap(
    (version) => KINDS[version],
  )
  const all = kinds.flatMap((subject) =>
    scenarios
      .filter(({ revision }) => subject !== 'v2-modern' || revision === '2026-07-28')
      .map((scenario) => ({ ...scenario, subject })),
  )
  const inapplicable = all.flatMap((run) => {
    const reason = INAPPLICABLE[run.subject][run.name]
    return reason === undefined ? [] : [{ ...run, reason }]
  })
  return { runs: all.filter(({ subject, name }) => !(name in INAPPLICABLE[subject])), inapplicable }
}
