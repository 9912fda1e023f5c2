import { check } from '@x/internal'
import type { Checks } from '@x/internal'

import { assertGatewayOptions } from '../../errors.ts'
import { anonymousPrincipal } from '../../internal/anonymous.ts'
import type { Authenticator } from './authenticator.ts'

export interface DevModeOptions {
  /** Who everybody is. @default 'mcp_user' */
  readonly principal?: string | undefined
  /** Told once, at the start. @default a process warning */
  readonly onWarning?: ((message: string) => void) | undefined
}

const optionChecks: Checks<DevModeOptions> = { principal: check.text, onWarning: check.func }

/**
 * Accepts everybody, with any token or none: to try out an agent before its authorization server exists. A gateway
 * with it refuses to bind an address that others can reach, whatever else it is told.
 */
export function devModeAuth(options: DevModeOptions = {}): Authenticator {
  assertGatewayOptions('devModeAuth()', options, optionChecks)
  const { principal = 'mcp_user', onWarning = warn } = options
  const everybody = anonymousPrincipal(principal)
  onWarning(
    `DEVELOPMENT MODE: no credential is checked, and everybody is "${principal}". Never use it where others can reach this gateway.`,
  )
  return { isDevMode: true, authenticate: () => Promise.resolve(everybody) }
}

function warn(message: string): void {
  process.emitWarning(message)
}
