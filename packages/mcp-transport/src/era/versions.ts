/** The stateless revisions that this transport speaks; newest first. */
export const MODERN_VERSIONS: readonly string[] = ['2026-07-28']

/** The newest of a server's versions that we speak. */
export function commonVersion(offered: readonly string[]): string | undefined {
  return MODERN_VERSIONS.find((version) => offered.includes(version))
}

/** Whether a server offers any revision with sessions: they are dates before 2026. */
export function hasLegacyVersion(offered: readonly string[]): boolean {
  return offered.some((version) => version < '2026')
}

/** Codes that only servers of 2026-07-28 give: header mismatch, missing capability, unsupported version. */
export const MODERN_CODES: readonly number[] = [-32020, -32021, -32022]

export const UNSUPPORTED_VERSION = -32022
