import type { GuardedFetch } from '../http/guarded-fetch.ts'
import type { ArtifactQuota } from './artifact-usage.ts'

/** Files that agents make, and that clients upload. Sizes are bytes, times milliseconds. */
export interface ArtifactOptions {
  /** `false`: results name files, and nobody can read them. @default true */
  readonly enabled?: boolean | undefined
  /** First part of their URIs. @default 'artifact' */
  readonly uriScheme?: string | undefined
  /** How long a version is kept. @default 86_400_000 */
  readonly ttlMs?: number | undefined
  /** Of one file. @default 104_857_600 */
  readonly maxBytes?: number | undefined
  /** What `resources/read` answers with at most; a larger file is downloaded. @default 8_388_608 */
  readonly readMaxBytes?: number | undefined
  readonly quota?: QuotaOptions | undefined
  readonly upload?: UploadOptions | undefined
  /** How long a link to a download, or to an upload, works. @default 900_000 */
  readonly downloadUrlTtlMs?: number | undefined
  /** Of downloads and uploads, as requests reach the gateway. @default '/artifacts' */
  readonly path?: string | undefined
  /**
   * The same as clients see it, for links: `https://agents.example/artifacts`.
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

/** Of one caller; callers without a name are counted by their address. */
export interface QuotaOptions extends Partial<ArtifactQuota> {
  /** Older ones go. @default 20 */
  readonly versionsPerName?: number | undefined
}

export interface UploadOptions {
  /** `PUT` of files, and `files` among what tools take. @default true */
  readonly enabled?: boolean | undefined
  /**
   * Offers the tool `artifact_upload_link`, so that whoever has no credential of their own uploads a file.
   *
   * @default where clients reach the gateway is configured: `http.publicUrl`, or `artifacts.baseUrl`
   */
  readonly linkTool?: boolean | undefined
  /** Of one file. @default that of all files */
  readonly maxBytes?: number | undefined
}
