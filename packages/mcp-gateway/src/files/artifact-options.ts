import type { GuardedFetch } from '../internal/guarded-fetch.ts'
import type { ArtifactQuota } from './records/artifact-usage.ts'

/** Files that agents make, and that clients upload. Sizes are bytes, times milliseconds. */
export interface ArtifactOptions {
  /** `false`: files are not kept. A result shows those that it has room for, and names the others. @default true */
  readonly enabled?: boolean | undefined
  /** First part of their URIs. @default 'artifact' */
  readonly uriScheme?: string | undefined
  /** How long a version is kept. @default 86_400_000 */
  readonly ttlMs?: number | undefined
  /** How large one file may be. @default 104_857_600 */
  readonly maxBytes?: number | undefined
  /** What `resources/read` answers with at most; a larger file is downloaded. @default 8_388_608 */
  readonly readMaxBytes?: number | undefined
  /** How much one caller may have. */
  readonly quota?: QuotaOptions | undefined
  /** How clients bring files. */
  readonly upload?: UploadOptions | undefined
  /** How long a link to a download, or to an upload, works. @default 900_000 */
  readonly downloadUrlTtlMs?: number | undefined
  /** Path of downloads and uploads, as requests reach the gateway. @default '/artifacts' */
  readonly path?: string | undefined
  /**
   * The same place as clients see it, for links: `https://agents.example/artifacts`.
   *
   * @default `path` at `http.publicUrl`, or where the gateway listens; where it does neither, there are no links
   */
  readonly baseUrl?: string | undefined
  /**
   * Fetches files that agents give by their URL; `never`: public ones are passed on as links.
   *
   * @default a `createGuardedFetch()` that takes `maxBytes`
   */
  readonly fetch?: GuardedFetch | 'never' | undefined
}

/** How much one caller may have. Callers without a name are counted by their address. */
export interface QuotaOptions extends Partial<ArtifactQuota> {
  /** How many versions of one name are kept; older ones go. @default 20 */
  readonly versionsPerName?: number | undefined
}

/** How clients bring files. */
export interface UploadOptions {
  /** Takes files by `PUT`, and has tools take `files`. @default true */
  readonly enabled?: boolean | undefined
  /**
   * Offers the tool `artifact_upload_link`, so that whoever has no credential of their own uploads a file.
   *
   * @default where clients reach the gateway is configured: `http.publicUrl`, or `artifacts.baseUrl`
   */
  readonly linkTool?: boolean | undefined
  /** How large one upload may be. @default that of all files */
  readonly maxBytes?: number | undefined
}
