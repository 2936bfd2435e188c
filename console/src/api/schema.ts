// Made by `npm run schema` from docs/reference/openapi.json. Do not edit.

export interface paths {
    "/v1/attachments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The attached volumes. */
        get: operations["attachments_list"];
        put?: never;
        /** Attaches a volume as a block device of this machine. */
        post: operations["attachment_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/attachments/{volume}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One attachment. */
        get: operations["attachment_show"];
        put?: never;
        post?: never;
        /** Unmounts and detaches a volume. */
        delete: operations["attachment_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who changed what, and which logins failed, the oldest first. */
        get: operations["audit_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/clients": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The clients that are connected to NBD, and the initiators that are logged in over iSCSI. */
        get: operations["clients_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/clients/{client}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Cuts a client off. Its requests under way run to their end; it may come back. */
        delete: operations["client_disconnect"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/clones": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes writable volumes from a snapshot, at no space. */
        post: operations["clone_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/console-sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes a ticket for a session. Needs no token: the ticket is one. */
        post: operations["console_session_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/console-tickets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Makes an address that opens the console in a browser, once. The first call opens a loopback address for it
         *     where the setting `api` names none.
         */
        post: operations["console_ticket_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/database-imports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Brings a database in: from a directory of a stopped server, by a base backup, or by a dump. */
        post: operations["database_import"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/database-snapshots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes a snapshot of databases of one pool at one instant, without stopping them. */
        post: operations["database_snapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/database-standbys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes a standby of a running server: it streams the primary's log. */
        post: operations["database_follow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All databases. */
        get: operations["databases_list"];
        put?: never;
        /** Makes an empty database and starts its server. */
        post: operations["database_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One database. */
        get: operations["database_show"];
        put?: never;
        post?: never;
        /**
         * Stops a database and deletes it with its volumes. Its clones stay. One with schedules is refused unless
         *     they are to go, too.
         */
        delete: operations["database_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/clone": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes a database of the content of another, at no space, and starts its server. */
        post: operations["database_clone"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/commands": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Gives a database without a server these commands instead of all that it has. The `ETag` of a database
         *     tells which commands it has, and not their words.
         */
        put: operations["database_commands"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * What differs between two databases, or snapshots of them, by relation. Both are cloned and recover; pages
         *     whose blocks differ by the maps are read and compared, no others. Then the clones are removed again.
         */
        post: operations["database_diff"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/expiry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Sets when a clone is deleted, or that it is not. */
        put: operations["database_expire"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/handover": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the machine needs that a clone is away at, with a script that does it. */
        get: operations["database_handover"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends the following of a standby: it becomes a database of its own. */
        post: operations["database_promote"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Gives a clone the content of its origin: what it holds is lost. */
        post: operations["database_reset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/resize": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Enlarges volumes of a database with their file systems, while it runs. */
        post: operations["database_resize"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sets a database back to a snapshot of its volumes. What it was before is kept in another snapshot. */
        post: operations["database_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/return": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Takes a clone back that is away: its exports end, its volumes are mounted here, and its server starts.
         *     Whatever still runs on the other machine loses them as by a loss of power.
         */
        post: operations["database_return"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The settings of a database's server that Ashlar keeps, and which of them wait for a restart. */
        get: operations["database_settings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Changes settings of a database's server, which reads them at once. */
        patch: operations["database_settings_change"];
        trace?: never;
    };
    "/v1/databases/{database}/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Mounts a database's volumes where they are not, and starts its server. */
        post: operations["database_start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stops the server of a database. It is not started again until somebody asks. */
        post: operations["database_stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/url": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where a database is found, with the password of its superuser. */
        get: operations["database_url"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Starts a server on a clone of a snapshot, has everything in it checked, and removes the clone. */
        post: operations["database_verify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{database}/waits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the sessions of a database wait for, looked at for some seconds. */
        get: operations["database_waits"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deleted-volumes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The deleted volumes that can come back, of all pools, the one kept longest first. */
        get: operations["deleted_volumes_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deleted-volumes/{volume}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Gives up a deleted volume: it cannot come back, and its space is free. */
        delete: operations["deleted_volume_purge"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deleted-volumes/{volume}/undelete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Brings a deleted volume back with all it held. */
        post: operations["volume_undelete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The newest events, oldest first. With `limit` and `order=descending` the newest ones first. */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/exports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The volumes that are exported over iSCSI. */
        get: operations["exports_list"];
        put?: never;
        /** Exports a volume: hosts that are logged in see it at once. */
        post: operations["export_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/exports/{volume}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The export of one volume. */
        get: operations["export_show"];
        put?: never;
        post?: never;
        /** Exports a volume no more, and forgets its reservations. Refused while a host that sees it is logged in. */
        delete: operations["export_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Answers when the thread that serves hosts answers. */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What hosts did in the last hour, day or week. */
        get: operations["history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/hosts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The hosts that may come in over iSCSI. */
        get: operations["hosts_list"];
        put?: never;
        /** Lets a host in. */
        post: operations["host_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/hosts/{host}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One host. */
        get: operations["host_show"];
        put?: never;
        post?: never;
        /** Lets a host in no more. Refused while exports name it, and while it is logged in. */
        delete: operations["host_delete"];
        options?: never;
        head?: never;
        /** Changes what a host proves, from its next login on. Its sessions and exports stay. */
        patch: operations["host_change"];
        trace?: never;
    };
    "/v1/io": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What hosts did, per volume and door. */
        get: operations["io"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The jobs of the present start, the newest last: work that takes long, and was asked for by a request.
         *     Those that came to their end stay until 256 newer ones are there.
         */
        get: operations["jobs_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{job}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One job, with its progress, and what it found or made. */
        get: operations["job_show"];
        put?: never;
        post?: never;
        /**
         * Ends a job that runs, where that is possible: a scrub behind the segment it is at, an import with all that
         *     it made. Forgets one that has come to its end.
         */
        delete: operations["job_cancel"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lab-results": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Results of the lab in the directory of the setting `lab_results`, the newest first; none without it. */
        get: operations["lab_results"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lab-results/{result}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A result of the lab; with `part`, of one experiment of a paper. */
        get: operations["lab_result"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lab-results/{result}/report": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The page of a result as a file: one HTML document that needs nothing else. */
        get: operations["lab_report"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/latencies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How long requests took in the last hour, day or week: a histogram for each step of the series. */
        get: operations["latencies"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Figures and events as they come: server-sent events (HTML standard, section 9.2). `hello` comes first
         *     (`Hello`), then `figures` once a second (`Figures`) and `event` (`Event`), whose `id` is the boot id, a
         *     colon and the sequence number. Who shows the last one as `Last-Event-ID` gets the events that were missed.
         */
        get: operations["live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Marks of the time line, the oldest first: those by hand, and the newest 200 each of snapshots, jobs and
         *     events of level warning or error.
         */
        get: operations["marks_list"];
        put?: never;
        /** Makes a mark. The newest 500 that were made are kept, also over a restart. */
        post: operations["mark_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marks/{mark}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One mark. */
        get: operations["mark_show"];
        put?: never;
        post?: never;
        /** Deletes a mark that was made by hand. Others go with what they are of. */
        delete: operations["mark_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/objectives": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All objectives of latency, and how they fare. */
        get: operations["objectives_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/objectives/{objective}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One objective. */
        get: operations["objective_show"];
        /**
         * Gives a database or a volume an objective, in place of the one that it has. Where both are called so the
         *     database is meant.
         */
        put: operations["objective_set"];
        post?: never;
        /** Deletes an objective. It goes by itself with its database or volume. */
        delete: operations["objective_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All pools, also those that could not be opened. */
        get: operations["pools_list"];
        put?: never;
        /** Makes a pool of drives. Drives that carry a pool are refused. */
        post: operations["pool_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One pool with its drives and space. */
        get: operations["pool_show"];
        put?: never;
        post?: never;
        /** Destroys an empty pool: its drives no longer carry it. */
        delete: operations["pool_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Walks every root and verifies every header and checksum, and all parity if asked. */
        post: operations["pool_check"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/dedupe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The fingerprint index of a pool, and what was found with it. */
        get: operations["pool_dedupe"];
        put?: never;
        /** Rebuilds, drops or resizes the fingerprint index, while the pool serves. */
        post: operations["pool_dedupe_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/drives": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Adds drives to a pool. Nothing is moved: when it answers, there is more room. */
        post: operations["drives_add"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/drives/{number}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Lets a drive leave for good: what is on it moves to the others without protection, and with it to spare
         *     space, also when the drive is out of service. Answers when that is under way in the background; when
         *     all is elsewhere the drive no longer carries the pool. Without protection the others may have to win room
         *     first. Changes nothing when it is leaving already. Taken back into service, it stays.
         */
        delete: operations["drive_remove"];
        options?: never;
        head?: never;
        /** Declares what may be written to a drive in its life. */
        patch: operations["drive_set"];
        trace?: never;
    };
    "/v1/pools/{pool}/drives/{number}/offline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes a drive out of service, if the pool can do without it. Changes nothing when it is out already. */
        post: operations["drive_offline"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/drives/{number}/online": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Takes a drive back into service that was away: what was written meanwhile is rebuilt in the background.
         *     One that is leaving stays. Changes nothing when the drive is in service.
         */
        post: operations["drive_online"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/drives/{number}/replace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Puts a new drive in the place of another. Answers when the pool writes to it; what it lacks is rebuilt in
         *     the background. A drive that is in service goes on serving until then.
         */
        post: operations["drive_replace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Closes a pool and forgets it; its drives keep it for an import. */
        post: operations["pool_export"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Opens a pool from its drives and remembers it. */
        post: operations["pool_import"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/reopen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Opens a pool again that stopped writing, or that is not open. One that takes writes is left alone. */
        post: operations["pool_reopen"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pools/{pool}/scrub": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Checks a pool, then compares every segment with its parity and sets right what is wrong. */
        post: operations["pool_scrub"];
        delete?: never;
        options?: never;
        head?: never;
        /** Holds the scrub of a pool, lets it go on, or ends it. */
        patch: operations["pool_scrub_change"];
        trace?: never;
    };
    "/v1/pools/{pool}/space": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where a pool's bytes are, in parts that sum to physical; each volume's and snapshot's share. */
        get: operations["pool_space"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Reads the settings file again. Some settings are in force at once, the answer names those that need a
         *     restart. A file with a mistake in it changes nothing. For root over the socket.
         */
        post: operations["reload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All schedules. */
        get: operations["schedules_list"];
        put?: never;
        /**
         * Makes a schedule: snapshots are taken by themselves, and deleted in turn. One with proofs is for root over
         *     the socket alone.
         */
        post: operations["schedule_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{schedule}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One schedule. */
        get: operations["schedule_show"];
        put?: never;
        post?: never;
        /** Deletes a schedule. Its snapshots stay unless they are to go, too; those that are held or used stay. */
        delete: operations["schedule_delete"];
        options?: never;
        head?: never;
        /** Changes how often a schedule takes snapshots, which it keeps, and whether it pauses. */
        patch: operations["schedule_change"];
        trace?: never;
    };
    "/v1/schedules/{schedule}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes no snapshots until somebody lets it go on, and deletes none. */
        post: operations["schedule_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{schedule}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes snapshots again. */
        post: operations["schedule_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{schedule}/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes a snapshot now, also while the schedule is paused. */
        post: operations["schedule_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the one who asks may do. */
        get: operations["session"];
        put?: never;
        post?: never;
        /** Logs out: ends the session whose token the request shows. */
        delete: operations["session_end"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** The user who asks gets another password. All its sessions end. */
        put: operations["password_change"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A user logs in. Needs no token. Whoever fails again and again waits longer each time. */
        post: operations["session_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the settings in force, without secrets. */
        get: operations["settings_show"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/slow-requests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The slowest requests of the last five minutes, the slowest first, with the time of each stage. */
        get: operations["slow_requests"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshot-deletions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Deletes several snapshots for little more than the time of one. All are checked first, and none is
         *     deleted where one cannot be. Where a pool fails on the way, the error tells how many are deleted.
         */
        post: operations["snapshots_delete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All snapshots of all pools, the oldest first. */
        get: operations["snapshots_list"];
        put?: never;
        /** Takes a snapshot of all the named volumes at one instant. */
        post: operations["snapshot_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshots/{snapshot}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One snapshot. */
        get: operations["snapshot_show"];
        put?: never;
        post?: never;
        /** Deletes a snapshot. Clones made from it stay. Refused while it is held. */
        delete: operations["snapshot_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshots/{snapshot}/hold": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Holds a snapshot: nobody and nothing deletes it until it is released. */
        put: operations["snapshot_hold"];
        post?: never;
        /** Ends the hold of a snapshot, if there is one. */
        delete: operations["snapshot_release"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshots/{snapshot}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sets its volumes back to the snapshot. What they were before is kept in another snapshot, taken in the
         *     same instant. Refused while one is attached.
         */
        post: operations["snapshot_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/space/holders/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What keeps the overwritten space of a volume, or the space of a snapshot. */
        get: operations["space_holders"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/space/reclaim": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What deleting a set of volumes and snapshots together would give back. Deletes nothing. */
        post: operations["space_reclaim"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The array as a whole. */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stops the array in order, as SIGTERM does. The answer comes before the end;
         *     with `detach`, after every volume is detached.
         */
        post: operations["stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The tokens of programs. */
        get: operations["tokens_list"];
        put?: never;
        /** Makes a token. Its secret is in this answer and nowhere else. */
        post: operations["token_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One token, without its secret. */
        get: operations["token_show"];
        put?: never;
        post?: never;
        /** Deletes a token: it opens nothing from now on. */
        delete: operations["token_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/upgrade": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stops the array in order and goes on with another program in the same process. What is attached waits
         *     meanwhile. For root over the socket only.
         */
        post: operations["upgrade"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The users of the array. */
        get: operations["users_list"];
        put?: never;
        /** Makes a user. */
        post: operations["user_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One user. */
        get: operations["user_show"];
        put?: never;
        post?: never;
        /** Deletes a user. Its sessions end. */
        delete: operations["user_delete"];
        options?: never;
        head?: never;
        /** Gives a user another role or password, or keeps it out. Its sessions end. */
        patch: operations["user_change"];
        trace?: never;
    };
    "/v1/volumes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All volumes of all pools. */
        get: operations["volumes_list"];
        put?: never;
        /** Makes a thin volume. */
        post: operations["volume_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One volume. */
        get: operations["volume_show"];
        put?: never;
        post?: never;
        /**
         * Deletes a volume that nobody uses. Its snapshots stay. It can come back for as long as the setting
         *     `deleted_volumes_hours` says, unless room is needed.
         */
        delete: operations["volume_delete"];
        options?: never;
        head?: never;
        /** Changes a volume's size, also while it is attached. */
        patch: operations["volume_resize"];
        trace?: never;
    };
    "/v1/volumes/{volume}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What differs between two volumes or images of one pool, by their maps alone: no data is read, and what
         *     they share costs nothing. Both are taken at one instant. What differs is listed in pages; of volumes in
         *     use each page is of another instant, so name snapshots to have them agree.
         */
        get: operations["volume_diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}/disconnect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cuts off the NBD clients of a volume or of an image. Unmounts and detaches nothing: the answer says what
         *     remains.
         */
        post: operations["volume_disconnect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Changes how a volume's data are reduced from now on. */
        put: operations["volume_set"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What the requests of a volume look like: their lengths, kinds, and whether they follow one another. With
         *     `seconds` those of so many seconds from now on, answered then.
         */
        get: operations["volume_profile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Everybody who uses a volume or an image of it: attachments, mounts in every namespace, devices built on
         *     it, processes, NBD clients.
         */
        get: operations["volume_users"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A token: what a program shows. Its secret is told once, when it is made. */
        ApiToken: {
            /**
             * @description Who made it, as the record of changes has it.
             * @example user ada
             */
            created_by: string;
            /** Format: int64 */
            created_unix_seconds: number;
            /**
             * Format: int64
             * @description Absent: never.
             */
            expires_unix_seconds?: number | null;
            /** @description Its end has come: it opens nothing. */
            is_expired: boolean;
            /**
             * Format: int64
             * @description To a minute; absent: never.
             */
            last_used_unix_seconds?: number | null;
            /** @example backup */
            name: string;
            only?: components["schemas"]["TokenScope"] | null;
            role: components["schemas"]["Role"];
        };
        /** @description The settings in force. */
        ArraySettings: {
            /**
             * @description The settings file; absent: the array was started without one.
             * @example /etc/ashlar/ashlar.toml
             */
            file?: string | null;
            settings: components["schemas"]["Setting"][];
        };
        /** @description Request to attach a volume. */
        AttachRequest: {
            /** @description Mounts without `nodev`: device files on the volume take effect. For root over the socket only. */
            allows_devices?: boolean;
            /** @description Mounts without `nosuid`: set-uid programs on the volume take effect. For root over the socket only. */
            allows_suid?: boolean;
            /** @description Formats whatever the volume holds, which is lost. */
            force?: boolean;
            format?: components["schemas"]["FileSystem"] | null;
            /** @description Absolute path of a directory to mount on; it is made when missing. */
            mount?: string | null;
            /** @description Ends with the machine or the array: it is not attached again at the next start. */
            once?: boolean;
            /**
             * @description Lets NBD clients and users of the volume's file write to it meanwhile. Only for hosts that are made to
             *     share a device.
             */
            shared?: boolean;
            volume: string;
        };
        /** @description An attached volume. */
        Attachment: {
            /** @example /dev/loop0 */
            device: string;
            /** @description Where its file system is mounted. */
            mount?: string | null;
            outlives?: components["schemas"]["Outlives"];
            volume: string;
        };
        /** @description A change that somebody asked for, whether or not it was carried out, or a login that failed. */
        AuditEntry: {
            /**
             * @description Where it came from; absent: over the socket.
             * @example 192.0.2.17:41222
             */
            address?: string | null;
            /**
             * Format: int64
             * @description So many more failed logins were not written, because there were too many.
             */
            left_out_count?: number;
            /** @example DELETE */
            method: string;
            object?: components["schemas"]["ObjectName"] | null;
            /**
             * @description With what stood behind the question mark.
             * @example /v1/volumes/db?force=true
             */
            path: string;
            /** @description What exactly was refused, where the answer says it. */
            reason?: string | null;
            /**
             * Format: int64
             * @description Goes on over restarts.
             */
            sequence: number;
            /**
             * Format: int32
             * @description The HTTP status of the answer.
             */
            status: number;
            /** Format: int64 */
            unix_millis: number;
            /**
             * @description `user NAME`, `token NAME`, `uid NUMBER` of the socket, `token file`, or `nobody`: not let in.
             * @example user ada
             */
            who: string;
        };
        /** @description A piece of a volume. */
        ByteRange: {
            /**
             * Format: int64
             * @description A multiple of 4096.
             */
            length_bytes: number;
            /**
             * Format: int64
             * @description From the volume's beginning; a multiple of 4096.
             */
            offset_bytes: number;
        };
        /**
         * @description Who asks, as the array sees it.
         * @enum {string}
         */
        CallerKind: "owner" | "person" | "guest";
        /** @description A name and the secret that proves it (CHAP). */
        ChapLogin: {
            /** @description 12 to 255 bytes; Windows takes no more than 16. Never shown again. */
            secret: string;
            /** @example db1 */
            user: string;
        };
        /** @description Result of walking every root of a pool and verifying every header and checksum. */
        CheckReport: {
            /** Format: int64 */
            chunk_count: number;
            /** Format: int64 */
            duration_millis: number;
            /** @description What is damaged; empty when all is well. */
            errors: string[];
            /** Format: int64 */
            live_bytes: number;
            /** Format: int64 */
            page_count: number;
            parity?: components["schemas"]["ParityCheck"] | null;
            pool: string;
        };
        /** @description Request to make writable volumes from a snapshot. */
        CloneCreate: {
            /** @description Whether requests of each give way to those of others. */
            class?: components["schemas"]["VolumeClass"];
            /**
             * Format: int64
             * @description Within what time reads and writes of each should be answered, 100 us to 1 s; absent or 0: no floor.
             *     Not with class `low`.
             */
            floor_micros?: number | null;
            /**
             * @description SNAPSHOT, VOLUME@SNAPSHOT, or VOLUME (an unnamed snapshot is taken).
             * @example before-upgrade
             */
            from: string;
            /**
             * Format: int64
             * @description Bytes on the drives that each new volume may have of its own at most; absent: no limit.
             */
            limit_bytes?: number | null;
            /**
             * @description Name of the new volume; a snapshot of several volumes yields NAME-VOLUME for each.
             * @example test
             */
            name: string;
            /**
             * Format: uint64
             * @description Bytes of the pool kept for each new volume; absent: none.
             */
            reserve_bytes?: number | null;
        };
        /**
         * @description How a volume's data are compressed.
         * @enum {string}
         */
        Compression: "off" | "lz4" | "zstd";
        /** @description A session: who shows its token may what the person may who asked for the ticket. */
        ConsoleSession: {
            /** Format: int64 */
            expires_seconds: number;
            /** @description For `Authorization: Bearer`. */
            token: string;
        };
        /** @description A ticket is to become a session. */
        ConsoleSessionCreate: {
            ticket: string;
        };
        /** @description What opens the console once. */
        ConsoleTicket: {
            /**
             * @description The whole address to open, with the ticket.
             * @example http://127.0.0.1:9410/console/#ticket=5f0c
             */
            address: string;
            /**
             * Format: int64
             * @description It opens the console once, within so long.
             */
            expires_seconds: number;
        };
        /** @description A database. */
        Database: {
            auto_grow?: components["schemas"]["DatabaseAutoGrow"] | null;
            away?: components["schemas"]["DatabaseAway"] | null;
            commands?: components["schemas"]["DatabaseCommands"] | null;
            /**
             * Format: double
             * @description Processors that its server may keep busy at once; absent: all.
             */
            cores?: number | null;
            /** Format: int64 */
            created_unix_seconds: number;
            /**
             * @description The kind of its server.
             * @example postgres
             */
            engine: string;
            /**
             * Format: int64
             * @description When it is deleted; absent: never.
             */
            expires_unix_seconds?: number | null;
            /**
             * Format: int32
             * @description Its major version; 0 without a server.
             * @example 15
             */
            major_version: number;
            /**
             * Format: int64
             * @description What its server may use of memory; absent: all.
             */
            memory_bytes?: number | null;
            name: string;
            origin?: components["schemas"]["DatabaseOrigin"] | null;
            pool: string;
            /**
             * Format: int32
             * @description Where its server listens, on 127.0.0.1; 0 without one.
             */
            port: number;
            progress?: components["schemas"]["DatabaseProgress"] | null;
            /** @description The newest proof of each of its snapshots that was proven, the newest first. */
            proofs?: components["schemas"]["DatabaseProof"][];
            /** @description Why its server does not run. */
            reason?: string | null;
            standby?: components["schemas"]["DatabaseStandby"] | null;
            /**
             * Format: int64
             * @description How long a start of its server may take; absent: 180 s.
             */
            start_timeout_seconds?: number | null;
            state: components["schemas"]["DatabaseState"];
            volumes: components["schemas"]["DatabaseVolume"][];
        };
        /** @description Volumes that grow by themselves. */
        DatabaseAutoGrow: {
            /**
             * Format: int64
             * @description As soon as a file system is so full.
             * @example 85
             */
            at_percent: number;
            /**
             * Format: int64
             * @description Up to this size; absent: as far as it goes.
             */
            max_bytes?: number | null;
            /**
             * Format: int64
             * @description By so much of its size.
             * @example 25
             */
            step_percent: number;
            /**
             * @description Volumes that have grown and whose file systems do before the next start of the server: this machine
             *     does not let them while they are mounted.
             */
            waiting?: string[];
        };
        /** @description Where a clone is that does not run on the array's machine. */
        DatabaseAway: {
            /**
             * @description The host that has its volumes.
             * @example db1
             */
            host: string;
            /** Format: int64 */
            since_unix_seconds: number;
        };
        /** @description Request to clone a database. */
        DatabaseClone: {
            /**
             * @description SQL that psql runs before anybody reaches the clone over the network, now and at each reset. When a
             *     statement fails there is no clone.
             * @example update customers set email = 'x' || id || '@example.com';
             */
            after_clone?: string | null;
            /** @description The database that it runs in; absent: `postgres`. */
            after_clone_database?: string | null;
            /**
             * @description The source's server makes a checkpoint first: the clone has little to recover, and takes no space for
             *     that. Until then it writes at its full speed. Not together with `snapshot`.
             */
            checkpoint?: boolean;
            /** @description Whether requests of its volumes give way to those of others, now and after each reset. Absent: low. */
            class?: components["schemas"]["VolumeClass"];
            /**
             * Format: double
             * @description Processors that its server may keep busy at once; 1.5 is one and a half. Absent: the source's.
             */
            cores?: number | null;
            /**
             * Format: int64
             * @description The clone is deleted after so long, an event tells of it before. Absent: never.
             */
            expires_after_seconds?: number | null;
            /** @description The same, made up by the array. */
            has_fresh_password?: boolean;
            /**
             * @description It is to run on another machine, this host of its pool: its volumes are exported to that, and the
             *     answer says what the machine needs. Its server has run here once by then, and is stopped. Absent: it
             *     runs on the array's machine.
             * @example db1
             */
            host?: string | null;
            /**
             * Format: int64
             * @description Memory of all processes of its server, with the files that the kernel caches for them. Absent: the
             *     source's.
             */
            memory_bytes?: number | null;
            /**
             * @description Name of the clone.
             * @example dev
             */
            name: string;
            /** @description A password of its own for its superuser, which stays at a reset. The source's stays as it is. */
            password?: string | null;
            /**
             * Format: int32
             * @description Absent: the first free one from 5433 on.
             */
            port?: number | null;
            /**
             * @description As the database was then: a snapshot, or a time, and then the newest snapshot at or before it. A time
             *     is `13:05:07` (today or, when that is still to come, yesterday), `2026-11-28T13:05:07Z` or `-10s`, in
             *     UTC by the clock of the array's machine. Absent: as it is now.
             * @example 13:05:07
             */
            snapshot?: string | null;
            /**
             * Format: int64
             * @description How long a start of its server may take, with its recovery; after that nothing of the clone is left.
             *     Kept for later starts. Absent: the source's.
             * @example 600
             */
            start_timeout_seconds?: number | null;
        };
        /** @description Which commands a database has. */
        DatabaseCommands: {
            /** @description Who runs them. */
            account: string;
            /**
             * @example [
             *       "freeze",
             *       "thaw"
             *     ]
             */
            names: string[];
            /**
             * Format: int64
             * @description How long `freeze` and `thaw` may take.
             */
            timeout_seconds: number;
        };
        /** @description Request to make an empty database. */
        DatabaseCreate: {
            /** @description Volumes grow by a quarter when their file systems are 85 % full. */
            auto_grow?: boolean;
            /**
             * Format: uint64
             * @description With `auto_grow`: the largest size of each. Absent: none.
             */
            auto_grow_max_bytes?: number | null;
            /**
             * Format: double
             * @description Processors that its server may keep busy at once; 1.5 is one and a half. Absent: no limit.
             */
            cores?: number | null;
            /** @description With `none` there are volumes and commands alone. */
            engine?: components["schemas"]["DatabaseEngine"];
            hooks?: components["schemas"]["DatabaseHooks"] | null;
            /**
             * Format: int64
             * @description Within what time reads and writes of that volume should be answered, 100 us to 1 s: while they are
             *     not, background work and other volumes are held back. Needs `log_size_bytes`. Absent or 0: no floor.
             * @example 2000
             */
            log_floor_micros?: number | null;
            /**
             * Format: uint64
             * @description Puts the write-ahead log on a volume of its own, of this size.
             */
            log_size_bytes?: number | null;
            /**
             * Format: int32
             * @description The major version; absent: the newest that is installed.
             */
            major_version?: number | null;
            /**
             * Format: int64
             * @description Memory of all processes of its server, with the files that the kernel caches for them. Absent: no
             *     limit.
             */
            memory_bytes?: number | null;
            /** @example prod */
            name: string;
            /** @description May be left out when there is one pool. */
            pool?: string | null;
            /**
             * Format: int32
             * @description Absent: the first free one from 5433 on.
             */
            port?: number | null;
            /**
             * Format: uint64
             * @description Of the volume for data, which is thin. A multiple of 4096.
             * @example 68719476736
             */
            size_bytes: number;
            /**
             * Format: int64
             * @description How long a start of its server may take, with its recovery; after that nothing of it is left.
             *     Kept for later starts. Absent: 180 s.
             * @example 600
             */
            start_timeout_seconds?: number | null;
            /** @description Makes tablespaces, each on a volume of its own. */
            tablespaces?: components["schemas"]["DatabaseTablespace"][];
            /**
             * Format: uint64
             * @description Puts temporary files, those of large sorts and joins, on a volume of their own, of this size.
             *     Snapshots leave it out, and in a clone it is empty.
             */
            temp_size_bytes?: number | null;
        };
        /** @description What the deleting of a database did. */
        DatabaseDeletion: {
            /** @description Databases that were cloned from it, and stay. */
            clones: string[];
            name: string;
            /** @description What is left elsewhere. */
            notes?: string[];
            /** Format: int64 */
            recoverable_seconds: number;
            /** @description Schedules of it alone that went with it. */
            schedules?: string[];
            /** @description Its volumes, which `volume undelete` brings back for that time. */
            volumes: string[];
        };
        /** @description What differs between two databases after both have recovered: pages whose bytes differ. */
        DatabaseDiff: {
            a: string;
            b: string;
            /** @description The write-ahead log and other files that differ. Settings and temporary files are left out. */
            files: components["schemas"]["FilesDiff"][];
            /**
             * Format: int64
             * @description Of a page.
             */
            page_bytes: number;
            /** @description Tables, indexes and whatever else has pages: those that differ, the most different first. */
            relations: components["schemas"]["RelationDiff"][];
            /**
             * Format: int64
             * @description The whole comparison, with the copies' recovery.
             */
            took_millis: number;
            /** @description The volumes, and what their maps say of them: an upper bound, with the file system's own. */
            volumes: components["schemas"]["DatabaseVolumeDiff"][];
        };
        /** @description Request to compare a database, or a snapshot of it, with another of the same pool. */
        DatabaseDiffRequest: {
            /** @description A snapshot of the database, or a time: then the newest at or before it. Absent: as it is now. */
            snapshot?: string | null;
            /**
             * @description The other database; may be the same.
             * @example dev
             */
            with: string;
            /** @description The same of the other one. */
            with_snapshot?: string | null;
        };
        /**
         * @description A kind of server.
         * @enum {string}
         */
        DatabaseEngine: "postgres" | "none";
        /** @description Request to set when a clone is deleted. */
        DatabaseExpiry: {
            /**
             * Format: int64
             * @description After so long from now. Absent: never.
             * @example 28800
             */
            expires_after_seconds?: number | null;
        };
        /** @description Request to make a standby of a running server. */
        DatabaseFollow: {
            /**
             * Format: uint64
             * @description Puts the write-ahead log on a volume of its own, of this size.
             */
            log_size_bytes?: number | null;
            /** @example prod-standby */
            name: string;
            /** @description May be left out when there is one pool. */
            pool?: string | null;
            /**
             * Format: int32
             * @description Absent: the first free one from 5433 on.
             */
            port?: number | null;
            /**
             * @description As `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
             * @example postgres://copier:secret@db1:5432/postgres
             */
            primary: string;
            /**
             * Format: uint64
             * @description Of the volume for data, which is thin. Absent: 64 GiB, or twice what the primary has.
             */
            size_bytes?: number | null;
            /**
             * Format: int64
             * @description How long its server's start may take, with its recovery; absent: 180 s. One that takes longer is given
             *     up, and nothing of the copy is left.
             */
            start_timeout_seconds?: number | null;
            /** @description How large the volumes of its tablespaces are to be. Absent: 64 GiB, or twice what is there. */
            tablespaces?: components["schemas"]["DatabaseTablespace"][];
        };
        /** @description What a machine needs to run a clone that is away at it. */
        DatabaseHandover: {
            /**
             * @description The account of its files on the array's machine.
             * @example postgres
             */
            account: string;
            /**
             * @description Where the host comes in.
             * @example [
             *       "192.0.2.10:3260"
             *     ]
             */
            addresses: string[];
            /** @description What the host calls itself when it proves who it is; absent: it proves nothing. */
            chap_user?: string | null;
            /** @description Its data directory, on the volume of data. */
            data_directory: string;
            /** Format: int32 */
            group_id: number;
            /**
             * @description The host that has its volumes.
             * @example db1
             */
            host: string;
            /**
             * Format: int32
             * @description The major version of its server.
             * @example 15
             */
            major_version: number;
            /** @description What the array calls itself when it proves who it is; absent: it need not. */
            mutual_chap_user?: string | null;
            name: string;
            /**
             * Format: int32
             * @description Where its server listens.
             */
            port: number;
            /**
             * @description Where the server's programs are on the array's machine.
             * @example /usr/lib/postgresql/15/bin
             */
            programs: string;
            /**
             * @description A script that does all of it, for root on that machine, with words about each step. It holds no
             *     secret, and has a line for that of the host.
             */
            script: string;
            /** Format: int64 */
            since_unix_seconds: number;
            /** @description Where its server's socket is, on no volume. */
            socket_directory: string;
            /**
             * @description The iSCSI name of the pool.
             * @example iqn.2026-11.io.ashlar:main-5a80c1d3
             */
            target: string;
            /** Format: int32 */
            user_id: number;
            volumes: components["schemas"]["DatabaseHandoverVolume"][];
        };
        /** @description A volume of a clone that is away. */
        DatabaseHandoverVolume: {
            /** @example ext4 */
            file_system: string;
            /**
             * Format: int32
             * @description Its number at the target.
             */
            lun: number;
            /** @description Where it is to be mounted: its files name each other by that. */
            mount: string;
            /** @description What is on it: `data`, `log`, `temp`, or `tablespace-` and the name of one. */
            role: string;
            volume: string;
            /**
             * @description Its name among all SCSI units: Linux has it as `/dev/disk/by-id/wwn-0x...`.
             * @example 0x3465391958fc61f1
             */
            wwn: string;
        };
        /**
         * @description Commands of a database without a server. Each is one for `sh -c`; ASHLAR_DATABASE is the database's name,
         *     ASHLAR_DATA the directory of its data, ASHLAR_LOG that of its log where it has one.
         */
        DatabaseHooks: {
            /**
             * @description Who runs them: an account of this machine. Its directories are that account's.
             * @example mysql
             */
            account: string;
            /** @description Ends well when a copy is whole, on which no server runs. */
            check?: string | null;
            /** @description Has the server hold still before a snapshot. */
            freeze?: string | null;
            /** @description Starts the server once the volumes are mounted, also those of a clone, and ends. */
            start?: string | null;
            /** @description Stops it. */
            stop?: string | null;
            /** @description Lets it go on behind that, also when `freeze` failed. */
            thaw?: string | null;
            /**
             * Format: int64
             * @description How long `freeze` and `thaw` may take; absent: 30 s.
             */
            timeout_seconds?: number | null;
        };
        /** @description Request to bring a database in. Exactly one of `from_directory` and `from` is given. */
        DatabaseImport: {
            /** @description The directory of its settings, when they are not in `from_directory` and not where Debian has them. */
            configuration_directory?: string | null;
            /**
             * @description A running server, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
             * @example postgres://copier:secret@db1:5432/postgres
             */
            from?: string | null;
            /**
             * @description The data directory of a stopped server of this machine. It is only read.
             * @example /var/lib/postgresql/15/main
             */
            from_directory?: string | null;
            /** @description By a dump of the one database that `from` names, for services that let nobody take a base backup. */
            is_logical?: boolean;
            /**
             * Format: uint64
             * @description Puts the write-ahead log on a volume of its own, of this size.
             */
            log_size_bytes?: number | null;
            /**
             * Format: int32
             * @description With `is_logical`, the major version of the copy; absent: the newest that is installed.
             */
            major_version?: number | null;
            /** @example prod */
            name: string;
            /** @description May be left out when there is one pool. */
            pool?: string | null;
            /**
             * Format: int32
             * @description Absent: the first free one from 5433 on.
             */
            port?: number | null;
            /**
             * Format: uint64
             * @description Of the volume for data, which is thin. Absent: 64 GiB, or twice what the source has.
             */
            size_bytes?: number | null;
            /**
             * Format: int64
             * @description How long its server's start may take, with its recovery; absent: 180 s. One that takes longer is given
             *     up, and nothing of the copy is left.
             */
            start_timeout_seconds?: number | null;
            /** @description How large the volumes of its tablespaces are to be. Absent: 64 GiB, or twice what is there. */
            tablespaces?: components["schemas"]["DatabaseTablespace"][];
        };
        /** @description What a database was cloned from. */
        DatabaseOrigin: {
            database: string;
            snapshot: string;
        };
        /** @description How far the making of a database is. */
        DatabaseProgress: {
            /** Format: int64 */
            done_bytes: number;
            /**
             * @description What is being done.
             * @example takes a base backup
             */
            stage: string;
            /**
             * Format: int64
             * @description By estimate; zero: there is nothing to count.
             */
            total_bytes: number;
        };
        /** @description A standby that became a database of its own. */
        DatabasePromotion: {
            database: components["schemas"]["Database"];
            /** @description What is to be known of it. */
            notes?: string[];
            /** @description Where clients find it, with the password of its superuser. */
            url: string;
        };
        /**
         * @description Whether a snapshot of a database recovers and is whole: a server was started on a clone of it, and
         *     everything in it checked.
         */
        DatabaseProof: {
            /** @description What is wrong; empty: it is proven. */
            findings: string[];
            /** @description What is to be known of this proof. */
            notes?: string[];
            /**
             * Format: int64
             * @description When it was proven.
             */
            proven_unix_seconds: number;
            snapshot: string;
            /**
             * Format: int64
             * @description The server's start with its recovery.
             */
            start_millis: number;
            /**
             * Format: int64
             * @description The whole proof.
             */
            took_millis: number;
        };
        /** @description A database that is ready for its clients. */
        DatabaseReady: {
            /** @description The snapshot that holds what was there before. */
            backup?: string | null;
            database: components["schemas"]["Database"];
            handover?: components["schemas"]["DatabaseHandover"] | null;
            /** @description What is to be known of it. */
            notes?: string[];
            /** @description The snapshot that it was set back to. */
            restored?: string | null;
            /**
             * Format: int64
             * @description Of that, the start of its server with its recovery.
             */
            start_millis: number;
            /**
             * Format: int64
             * @description The whole operation.
             */
            took_millis: number;
            /**
             * @description Where clients find it, with the password of its superuser.
             * @example postgres://postgres:secret@127.0.0.1:5433/postgres
             */
            url: string;
        };
        /** @description Request to give a clone another content: what it holds is lost. Its name, port and version stay. */
        DatabaseReset: {
            /** @description As its origin is now. */
            latest?: boolean;
            /** @description As its origin was in this snapshot, or at this time; absent: in the one that it was last made from. */
            snapshot?: string | null;
            /**
             * Format: int64
             * @description How long a start of its server may take, with its recovery; after that it is ended and stays stopped.
             *     Kept for later starts. Absent: as before.
             * @example 600
             */
            start_timeout_seconds?: number | null;
        };
        /** @description Request to enlarge volumes of a database with their file systems, while it runs. */
        DatabaseResize: {
            /**
             * @description Whether volumes grow from now on by a quarter when their file systems are 85 % full. Absent: as
             *     before.
             */
            auto_grow?: boolean | null;
            /**
             * Format: uint64
             * @description With `auto_grow`: the largest size of each. Absent: none.
             */
            auto_grow_max_bytes?: number | null;
            /** @description New sizes by what is on the volume: `data`, `log`, `temp`, or `tablespace-` and the name of one. */
            sizes_bytes?: {
                [key: string]: number;
            };
        };
        /** @description Request to set a database back to a snapshot of its own volumes. */
        DatabaseRestore: {
            /** @description A snapshot, or a time: then the newest at or before it. */
            snapshot: string;
            /**
             * Format: int64
             * @description How long a start of its server may take, with its recovery; after that it is ended and stays stopped.
             *     Kept for later starts. Absent: as before.
             * @example 600
             */
            start_timeout_seconds?: number | null;
        };
        /** @description Settings of a database that Ashlar keeps; what is not here is in the server's own files. */
        DatabaseSettings: {
            name: string;
            settings: {
                [key: string]: string;
            };
            /** @description Those that count from the server's next start on. */
            waiting_for_restart: string[];
        };
        /**
         * @description Request to change settings of a database's server. They stay over restarts; a clone begins with those of
         *     its source, but with little memory.
         */
        DatabaseSettingsChange: {
            /**
             * Format: int32
             * @description Where the server listens from its next start on. One that runs is started anew: say `restart`.
             */
            port?: number | null;
            /** @description Names that get the value of the server's own files again. */
            reset?: string[];
            /**
             * @description Starts the server anew where a setting asks for that. One that does not start so gets back the
             *     settings of before, and the request is refused.
             */
            restart?: boolean;
            /** @description Values by name, as in postgresql.conf. */
            set?: {
                [key: string]: string;
            };
        };
        /** @description Request to take a snapshot of databases of one pool at one instant, without stopping them. */
        DatabaseSnapshot: {
            /**
             * @description Their servers make a checkpoint first: what is cloned of the snapshot has little to recover, and takes
             *     no space for that. Until then they write at their full speed.
             */
            checkpoint?: boolean;
            databases: string[];
            /**
             * @description Name of the snapshot.
             * @example before-upgrade
             */
            name: string;
        };
        /** @description What a standby follows, and how far it is behind. */
        DatabaseStandby: {
            /** @description It hears from its primary; absent: its server did not say. */
            is_streaming?: boolean | null;
            /**
             * Format: int64
             * @description Log that the primary has and that is not replayed here.
             */
            lag_bytes?: number | null;
            /**
             * Format: int64
             * @description How old the newest transaction is that was replayed, where there is more to replay.
             */
            lag_millis?: number | null;
            /** @description Without a password. */
            primary: string;
            /** @description The replication slot that the primary keeps for it. */
            slot: string;
        };
        /** @description Request to start the server of a database. */
        DatabaseStart: {
            /**
             * Format: int64
             * @description How long that may take, with its recovery; after that it is ended and stays stopped. Kept for later
             *     starts. Absent: as before, at first 180 s.
             * @example 600
             */
            start_timeout_seconds?: number | null;
        };
        /**
         * @description What a database does.
         * @enum {string}
         */
        DatabaseState: "making" | "busy" | "running" | "stopped" | "failed" | "resetting" | "deleting" | "away";
        /** @description A tablespace that is to be made. */
        DatabaseTablespace: {
            /** @example archive */
            name: string;
            /**
             * Format: uint64
             * @description Of its volume, which is thin. A multiple of 4096.
             */
            size_bytes: number;
        };
        /** @description Where a database is found. */
        DatabaseUrl: {
            url: string;
        };
        /** @description Request to prove that a snapshot of a database recovers. */
        DatabaseVerify: {
            /** @description A snapshot, or a time: then the newest at or before it. Absent: one is taken, and deleted afterwards. */
            snapshot?: string | null;
        };
        /** @description A volume of a database. */
        DatabaseVolume: {
            /** @description Where it is mounted while the server runs. */
            mount: string;
            /** @description What is on it: `data`, `log`, `temp`, or `tablespace-` and the name of one. */
            role: string;
            volume: string;
        };
        /** @description What differs of two volumes with the same role. */
        DatabaseVolumeDiff: {
            /** Format: int64 */
            different_bytes: number;
            /** @description `data`, `log`, or `tablespace-` and the name of one. */
            role: string;
        };
        /** @description Sessions that waited for one thing. */
        DatabaseWait: {
            cause: components["schemas"]["WaitCause"];
            /**
             * @description As PostgreSQL calls it (27.2.3); `CPU:Running` waits for nothing.
             * @example IO:DataFileRead
             */
            event: string;
            /**
             * Format: double
             * @description How many at a time.
             */
            session_count: number;
        };
        /** @description What sessions of a database were found at, as means over many looks. */
        DatabaseWaits: {
            /**
             * Format: int64
             * @description How often it was looked.
             */
            look_count: number;
            name: string;
            /**
             * Format: double
             * @description Sessions that were at work at a time, all together.
             */
            session_count: number;
            /** @description What they waited for, the most frequent first. */
            waits: components["schemas"]["DatabaseWait"][];
        };
        /** @description Dedupe of a pool as it is now. */
        Dedupe: {
            /** @description Since the pool was opened. */
            blocks: components["schemas"]["DedupeBlocks"];
            /**
             * Format: int64
             * @description Memory the fingerprint index may come to take; 0 while there is none.
             */
            index_bytes: number;
            /**
             * Format: int64
             * @description Blocks it knows.
             */
            index_entry_count: number;
            /**
             * Format: int64
             * @description What it is made with at most; 0: dedupe is off.
             */
            index_max_bytes: number;
            pool: string;
            /**
             * Format: int64
             * @description Written blocks that wait to be looked at.
             */
            queued_block_count: number;
            /**
             * Format: int32
             * @description How far a pass over everything is; absent when none runs.
             */
            rebuild_percent?: number | null;
        };
        /**
         * @description What to do with the fingerprint index. Nothing of it is needed to read data.
         * @enum {string}
         */
        DedupeAction: "rebuild" | "drop" | "resize";
        /** @description What became of written blocks of volumes with dedupe. */
        DedupeBlocks: {
            /**
             * Format: int64
             * @description Compared byte by byte.
             */
            compared_count: number;
            /**
             * Format: int64
             * @description Left alone: the cleaner may free what an entry led to.
             */
            condemned_count: number;
            /**
             * Format: int64
             * @description Never looked at: more was written than the queue holds.
             */
            dropped_count: number;
            /**
             * Format: int64
             * @description Found equal beside a hit, without a look-up.
             */
            extended_count: number;
            /**
             * Format: int64
             * @description Looked up, and the same bytes were found.
             */
            hit_count: number;
            /**
             * Format: int64
             * @description Looked up in the index.
             */
            looked_up_count: number;
            /**
             * Format: int64
             * @description Left alone: an entry led to other bytes.
             */
            mismatched_count: number;
            /**
             * Format: int64
             * @description Never looked at: the pool was full.
             */
            no_room_count: number;
            /**
             * Format: int64
             * @description Left alone: written over meanwhile.
             */
            overtaken_count: number;
            /**
             * Format: int64
             * @description Left alone: other blocks of their chunk have no equal, so it would stay.
             */
            partial_chunk_count: number;
            /**
             * Format: int64
             * @description Of these, while the cleaner was at work.
             */
            shared_beside_cleaning_count: number;
            /**
             * Format: int64
             * @description The same in bytes, before compression.
             */
            shared_bytes: number;
            /**
             * Format: int64
             * @description Made to share what was there already.
             */
            shared_count: number;
            /**
             * Format: int64
             * @description Of these, with what the cleaner has moved since it was written.
             */
            shared_moved_count: number;
            /**
             * Format: int64
             * @description Left alone: too few equal blocks in a row.
             */
            short_run_count: number;
            /**
             * Format: int64
             * @description Left alone: an entry led to what is gone, or moved and no longer where it was written.
             */
            stale_count: number;
            /**
             * Format: int64
             * @description Left alone: they could not be read.
             */
            unreadable_count: number;
        };
        /** @description Request to do something with the fingerprint index of a pool. */
        DedupeRequest: {
            action: components["schemas"]["DedupeAction"];
            /**
             * Format: uint64
             * @description Of a resize: memory at most, from 64 KiB; 0 switches dedupe off until the next start.
             */
            index_max_bytes?: number | null;
        };
        /** @description A deleted volume that can come back. */
        DeletedVolume: {
            /**
             * Format: int64
             * @description When it was deleted, by this machine's clock at that time.
             */
            deleted_unix_seconds: number;
            /**
             * Format: int64
             * @description Number of the volume in its pool.
             */
            id: number;
            /**
             * Format: int64
             * @description How long the array has kept it. Only time counts in which the array had the pool open, whatever the
             *     clock says.
             */
            kept_seconds: number;
            /**
             * @description The name it had. Another volume may have it by now, and other deleted ones may have had it: `NAME:ID`
             *     tells this one.
             */
            name: string;
            pool: string;
            /**
             * Format: int64
             * @description How much longer it is kept, unless room is needed.
             */
            remaining_seconds: number;
            /**
             * Format: int64
             * @description Size the host saw.
             */
            size_bytes: number;
            /**
             * Format: int64
             * @description Bytes of the volume that hold data. Absent while they are counted anew, after a shrink for one.
             */
            written_bytes?: number | null;
        };
        /** @description What `disconnect` did. */
        Disconnected: {
            /** @description NBD clients that were cut off. */
            cut: components["schemas"]["VolumeUser"][];
            /** @description Who still uses the volume. */
            remaining: components["schemas"]["VolumeUser"][];
        };
        /** @description One address at which hosts reach volumes, or people the API. */
        Door: {
            /** @description Socket path, address or directory. */
            address: string;
            /**
             * Format: int64
             * @description Clients that are connected now, of doors that count them.
             */
            client_count?: number | null;
            /** @description `api`, `nbd`, `iscsi` or `fuse`. */
            name: string;
            reason?: string | null;
            state: components["schemas"]["DoorState"];
            /** @description How bytes travel, as in `unix`, `tcp`, `fuse over io_uring`. */
            transport: string;
        };
        /** @description A client that is connected to a door. */
        DoorClient: {
            /** @description Where a TCP client connects from. */
            address?: string | null;
            /**
             * Format: int64
             * @description Since when it is connected.
             */
            connected_seconds: number;
            /** @description `nbd` or `iscsi`. */
            door: string;
            /**
             * Format: int64
             * @description What `client disconnect` takes. No other client has it until the array starts anew.
             */
            id: number;
            /**
             * Format: int64
             * @description Requests that it waits for.
             */
            in_flight_count: number;
            /** @description The name of an iSCSI initiator. */
            initiator?: string | null;
            is_read_only: boolean;
            /**
             * Format: int32
             * @description The process that connected to the socket.
             */
            process_id?: number | null;
            /** @description The name of its program, while it runs. */
            program?: string | null;
            /** @description The iSCSI target that it uses: a pool, of which it may have several volumes open. */
            target?: string | null;
            /** @description `unix` or `tcp`. */
            transport: string;
            /**
             * Format: int32
             * @description The user it ran as.
             */
            user_id?: number | null;
            /** @description The volume, or `VOLUME@SNAPSHOT`, that it uses; none until it has chosen. */
            volume?: string | null;
        };
        /** @description Counters of one volume through one door, since the array started. */
        DoorIo: {
            /** @description `nbd` or `fuse`. */
            door: string;
            operations: components["schemas"]["OperationIo"][];
            volume: string;
        };
        /**
         * @description Whether a door serves.
         * @enum {string}
         */
        DoorState: "serving" | "idle" | "off" | "failed";
        /** @description A drive of a pool. */
        Drive: {
            /**
             * Format: int64
             * @description Since when `written_bytes` is counted; absent while the pool is not open.
             */
            counted_since_unix_seconds?: number | null;
            /**
             * Format: int64
             * @description What may be written to it in its life, as declared.
             * @example 600000000000000
             */
            endurance_bytes?: number | null;
            /**
             * Format: int64
             * @description Requests that failed since it was opened. With parity the others answer for them; one of which 256
             *     fail more than were mended is given up.
             */
            error_count?: number;
            /**
             * @description Drawn when it joined its pool: another drive in its place has another. Empty while the pool is not
             *     open.
             */
            id?: string;
            /** @description It was missing when the pool was opened, and is taken back into service as soon as it comes. */
            is_awaited?: boolean;
            /** @description It is no more: spare space holds what was on it, or will. */
            is_in_spare_space?: boolean;
            /** @description Where it was when it last served, if that is known and it is not found. */
            last_path?: string | null;
            /**
             * Format: int64
             * @description Blocks written again since it was opened because they were not what they should have been.
             */
            mended_block_count?: number;
            /**
             * Format: int32
             * @description What it is called by in requests, from 0; absent while the pool is not open.
             */
            number?: number | null;
            /**
             * @description Empty when no drive was found for this number, and when spare space holds what was on it.
             * @example /var/lib/ashlar/drive-0.img
             */
            path: string;
            /**
             * Format: int64
             * @description Read from it since it was opened.
             */
            read_bytes?: number;
            /** @description Why it is not online. */
            reason?: string | null;
            /**
             * Format: int32
             * @description How much of its life is used, as an NVMe drive judges itself. May exceed 100.
             */
            reported_worn_percent?: number | null;
            /**
             * Format: int64
             * @description Written to it in its life, as an NVMe drive counts it itself.
             */
            reported_written_bytes?: number | null;
            /**
             * Format: int64
             * @description 0 when it is not known.
             */
            size_bytes: number;
            /**
             * @description `online`, `moving` (it serves while its content goes elsewhere), `spare` (it is no more: spare space
             *     holds what was on it), `rebuilding`, `leaving`, `out` (it is gone or was given up) or, while the pool
             *     is not open, `unknown`. One that has left a pool without protection is not told of, and its number is
             *     not used again.
             * @example online
             */
            state: string;
            /**
             * Format: int64
             * @description Reads since it was opened that the other drives answered because it was slow.
             */
            steered_read_count?: number;
            /**
             * Format: int64
             * @description When it will be worn out if it is written as it was since `counted_since_unix_seconds`. Absent before
             *     a day is counted, and when `worn_percent` is absent or tells too little.
             */
            worn_out_unix_seconds?: number | null;
            /**
             * Format: int32
             * @description How much of its life is used: what it reports itself, otherwise `written_bytes` of `endurance_bytes`.
             *     Absent when neither is known. May exceed 100.
             */
            worn_percent?: number | null;
            /**
             * Format: int64
             * @description Written to it by this array since it joined its pool: what wears it. The array is restarted and
             *     upgraded without losing more of it than the last minute.
             */
            written_bytes?: number;
        };
        /** @description Request to change what is declared of a drive. */
        DriveChange: {
            /**
             * Format: int64
             * @description What may be written to it in its life, from its data sheet; `null` when that is not known.
             * @example 600000000000000
             */
            endurance_bytes: number | null;
        };
        /** @description Request to take a drive back into service. */
        DriveOnline: {
            /** @description Absolute path of the drive; absent: where it was last, or a recorded one that turns out to be it. */
            path?: string | null;
        };
        /** @description A drive to make a pool of, or to put in the place of another. */
        DriveSpec: {
            /** @description Take it although it holds data, a file system, or another pool, which are lost. */
            force?: boolean;
            /**
             * @description Absolute path of a block device or a file.
             * @example /var/lib/ashlar/drive-0.img
             */
            path: string;
            /**
             * Format: uint64
             * @description Makes a file of this size; the file must not exist. Without it the path must exist.
             * @example 10737418240
             */
            size_bytes?: number | null;
        };
        /** @description Request to add drives to a pool. */
        DrivesAdd: {
            /** @description The drives. With protection they make rows of their own: at least as many as a row is wide. */
            drives: components["schemas"]["DriveSpec"][];
        };
        /**
         * @description What the caller should act on.
         * @enum {string}
         */
        ErrorKind: "invalid" | "unauthorized" | "forbidden" | "not-found" | "no-such-method" | "exists" | "busy" | "cancelled" | "read-only" | "changed" | "too-large" | "media-type" | "key-reused" | "too-many" | "no-space" | "damaged" | "medium" | "closed";
        /** @description One event. */
        Event: {
            /** @description Of the start that `sequence` counts from: another one for each. */
            boot_id?: string;
            level: components["schemas"]["EventLevel"];
            message: string;
            /** @description The object it is about, as in `volume db`. */
            object: string;
            /**
             * Format: int64
             * @description Counts from 1 since the array started.
             */
            sequence: number;
            /** Format: int64 */
            unix_millis: number;
        };
        /**
         * @description How much a person must care.
         * @enum {string}
         */
        EventLevel: "info" | "warning" | "error";
        /** @description A volume as hosts reach it over iSCSI. */
        Export: {
            /** @description Where hosts come in; none: the setting `iscsi_listen` names none. */
            addresses: string[];
            /**
             * Format: int32
             * @description The block that hosts address.
             */
            block_bytes: number;
            /** Format: int64 */
            created_unix_seconds: number;
            /** @description Who sees it; nobody named: every host that comes in. */
            hosts: string[];
            /**
             * Format: int32
             * @description Its number there.
             */
            lun: number;
            pool: string;
            /**
             * Format: int64
             * @description Sessions of hosts that see it.
             */
            session_count: number;
            /**
             * @description The iSCSI name of the pool.
             * @example iqn.2026-11.io.ashlar:main-5a80c1d3
             */
            target: string;
            volume: string;
            /**
             * @description Its name among all SCSI units: Linux has it as `/dev/disk/by-id/wwn-0x...`.
             * @example 0x3465391958fc61f1
             */
            wwn: string;
        };
        /** @description Request to export a volume. */
        ExportCreate: {
            /**
             * Format: int32
             * @description The block that hosts address, 512 or 4096; absent: the volume's logical block.
             * @enum {integer|null}
             */
            block_bytes?: 512 | 4096 | null;
            /** @description Who sees it. None named: every host that comes in; on loopback that is everybody. */
            hosts?: string[];
            /**
             * Format: int32
             * @description Its number at the target, 0 to 16383; absent: the next that is free.
             */
            lun?: number | null;
            /** @example db */
            volume: string;
        };
        /** @description What hosts did in the last interval. */
        Figures: {
            /** @description All volumes together. */
            array: components["schemas"]["Rates"];
            /** Format: int64 */
            interval_millis: number;
            pools: components["schemas"]["PoolFigures"][];
            /**
             * Format: int64
             * @description The end of the interval.
             */
            unix_millis: number;
            /** @description Volumes with requests in the interval. */
            volumes: components["schemas"]["VolumeFigures"][];
        };
        /**
         * @description A file system to make on a volume.
         * @enum {string}
         */
        FileSystem: "ext4" | "xfs";
        /** @description Files that differ and are no relation's. */
        FilesDiff: {
            /** Format: int64 */
            different_bytes: number;
            /** Format: int64 */
            different_pages_count: number;
            /**
             * Format: int64
             * @description How many of them.
             */
            files_count: number;
            /**
             * @description Their directory, or the file. `pg_wal` is the write-ahead log.
             * @example pg_wal
             */
            name: string;
        };
        /** @description The array answers, with its data path. */
        Health: {
            /**
             * Format: int64
             * @description How long the thread that serves hosts took to answer.
             */
            answer_micros: number;
        };
        /** @description What a stream of figures begins with. */
        Hello: {
            /** @description Another one than before: the array was started anew, and what was known of it may be old. */
            boot_id: string;
            /**
             * Format: int64
             * @description Time between two figures.
             */
            interval_millis: number;
            version: string;
        };
        /** @description What hosts did over a longer time. */
        History: {
            /** @description `array`, or as in `pool:main` and `volume:db`. */
            object: string;
            /**
             * @description Oldest first. One that is missing is of a time in which the array did not run, or the object was not
             *     among the busiest.
             */
            points: components["schemas"]["HistoryPoint"][];
            range: components["schemas"]["HistoryRange"];
            /** Format: int64 */
            step_seconds: number;
        };
        /** @description One step of a series. */
        HistoryPoint: {
            rates: components["schemas"]["Rates"];
            /**
             * Format: int64
             * @description The end of the step.
             */
            unix_millis: number;
        };
        /**
         * @description How far back a series goes.
         * @enum {string}
         */
        HistoryRange: "hour" | "day" | "week";
        /** @description Request to hold a snapshot. One that is held gets the new reason. */
        HoldRequest: {
            /**
             * @description One line of at most 200 bytes.
             * @example audit 2026
             */
            reason?: string;
        };
        /** @description One that holds something. */
        Holder: {
            /**
             * Format: int64
             * @description What, of all others, only this one holds.
             */
            bytes: number;
            is_snapshot: boolean;
            /** @description `VOLUME`, or `VOLUME@SNAPSHOT`. */
            name: string;
        };
        /** @description What keeps the space of a volume or snapshot. */
        Holders: {
            /** Format: int64 */
            duration_millis: number;
            /** @description What one other holds alone, most first. */
            holders: components["schemas"]["Holder"][];
            /** @description The volume, or the images of the snapshot. */
            members: string[];
            /**
             * Format: int64
             * @description Chunks only this refers to: deleting it gives them back.
             */
            only_bytes: number;
            pool: string;
            question: components["schemas"]["HoldersQuestion"];
            /**
             * Format: int64
             * @description What several others hold together: it goes with the last of them.
             */
            several_bytes: number;
        };
        /**
         * @description Which bytes are asked for.
         * @enum {string}
         */
        HoldersQuestion: "overwritten" | "stays-after-delete";
        /** @description A host. Its secrets are never shown. */
        Host: {
            /** @description The name it proves by a secret; absent: it proves nothing. */
            chap_user?: string | null;
            /** Format: int64 */
            created_unix_seconds: number;
            /** @description Its iSCSI name, in small letters. */
            initiator: string;
            /** @description The name that the array proves to it. */
            mutual_chap_user?: string | null;
            name: string;
            pool: string;
            /** @description Where it is logged in from now. */
            sessions: components["schemas"]["HostSession"][];
            /** @description The volumes it sees. */
            volumes: string[];
        };
        /**
         * @description Request to change what a host proves. What is absent stays. Sessions that are there stay, too: who logs in
         *     from now on proves what is said here.
         */
        HostChange: {
            chap?: components["schemas"]["ChapLogin"] | null;
            mutual_chap?: components["schemas"]["ChapLogin"] | null;
            /**
             * @description It proves nothing any more, and nothing is proven to it. Refused while an address off loopback is
             *     open.
             */
            without_chap?: boolean;
            /** @description Nothing is proven to it any more. */
            without_mutual_chap?: boolean;
        };
        /** @description Request to let a host in. */
        HostCreate: {
            chap?: components["schemas"]["ChapLogin"] | null;
            /**
             * @description Its iSCSI name: of its file `initiatorname.iscsi`, or as its settings have it.
             * @example iqn.1993-08.org.debian:01:2f6b9d8a51c
             */
            initiator: string;
            mutual_chap?: components["schemas"]["ChapLogin"] | null;
            /** @example db1 */
            name: string;
            /** @description The pool that remembers it, and whose volumes it may see. Needed where there are several. */
            pool?: string | null;
        };
        /** @description A session of a host with the target of its pool. */
        HostSession: {
            /**
             * @description Where it comes from.
             * @example 192.0.2.17:41222
             */
            address: string;
            /** Format: int64 */
            connected_seconds: number;
            /**
             * Format: int64
             * @description Commands without an answer.
             */
            in_flight_count: number;
        };
        /**
         * @description What hosts ask of a volume, over all doors: how long its requests are, of which kinds, and whether they
         *     follow one another.
         */
        IoProfile: {
            /**
             * Format: int64
             * @description How long requests were counted; absent: since the array started, or the volume was made.
             */
            counted_seconds?: number | null;
            /** Format: int64 */
            flush_count: number;
            reads: components["schemas"]["RequestProfile"];
            /**
             * Format: int64
             * @description Ranges given back: discard, trim.
             */
            unmap_count: number;
            volume: string;
            /**
             * Format: int64
             * @description Writes of zeroes that carry no data.
             */
            write_zeroes_count: number;
            writes: components["schemas"]["RequestProfile"];
        };
        /** @description Long work. The array remembers the newest 256 jobs of its present start. */
        Job: {
            /**
             * Format: int64
             * @description When it came to its end.
             */
            ended_unix_millis?: number | null;
            /**
             * @description No other job of any start of the array has it.
             * @example 5f0c2a91-7
             */
            id: string;
            /** @description It can be ended before its time. */
            is_cancellable: boolean;
            kind: components["schemas"]["JobKind"];
            /** @description What is worked on. */
            object: components["schemas"]["ObjectName"];
            problem?: components["schemas"]["Problem"] | null;
            progress?: components["schemas"]["JobProgress"] | null;
            result?: components["schemas"]["JobResult"] | null;
            /** Format: int64 */
            started_unix_millis: number;
            state: components["schemas"]["JobState"];
        };
        /**
         * @description What a job does.
         * @enum {string}
         */
        JobKind: "check" | "scrub" | "rebuild" | "import" | "follow" | "verify";
        /** @description How far a job is. */
        JobProgress: {
            /** Format: int64 */
            done_count: number;
            /**
             * @description What is being done.
             * @example takes a base backup
             */
            stage: string;
            /**
             * Format: int64
             * @description 0: there is nothing to count in this stage.
             */
            total_count: number;
            unit: components["schemas"]["ProgressUnit"];
        };
        /** @description What a job found or made: the member of its kind. */
        JobResult: {
            check?: components["schemas"]["CheckReport"] | null;
            database?: components["schemas"]["Database"] | null;
            proof?: components["schemas"]["DatabaseProof"] | null;
            scrub?: components["schemas"]["ScrubReport"] | null;
        };
        /**
         * @description How far a job came.
         * @enum {string}
         */
        JobState: "running" | "done" | "failed" | "cancelled";
        /** @description A rule of an experiment, and whether it holds. */
        LabCheck: {
            /** @description `passed`, `failed`, or `cannot-tell`. */
            answer: string;
            found: string;
            name: string;
            rule: string;
        };
        /** @description What was measured, beside what was published. */
        LabMetric: {
            /** @example iops.under(1ms) */
            metric: string;
            /** @description What the paper says of it. */
            note?: string | null;
            /** Format: double */
            published?: number | null;
            rows: components["schemas"]["LabRow"][];
        };
        /** @description An experiment of a paper. */
        LabPart: {
            answer: string;
            experiment: string;
            /**
             * @description What to ask for it with; absent: it did not begin.
             * @example headline
             */
            name?: string | null;
            question: string;
            title: string;
            /** @description `passed`, `failed` or `not-valid`. */
            verdict: string;
        };
        /** @description A result: of one experiment, or of all experiments of a paper. */
        LabResult: {
            /** @description What was found, in a sentence or two. */
            answer?: string | null;
            /** Format: int64 */
            begun_unix_seconds?: number | null;
            checks?: components["schemas"]["LabCheck"][];
            /** @description Why it is a part, or no valid result. */
            complaints?: string[];
            /**
             * @description The experiment, or the paper.
             * @example emc/headline
             */
            experiment: string;
            metrics?: components["schemas"]["LabMetric"][];
            /**
             * @description The name of its directory.
             * @example emc
             */
            name: string;
            /** @description Of a paper: its experiments. */
            parts?: components["schemas"]["LabPart"][];
            /** @description The scale that it was run at. */
            preset?: string | null;
            question?: string | null;
            /**
             * @example [
             *       "ashlar:main",
             *       "/mnt/plain"
             *     ]
             */
            targets?: string[];
            title?: string | null;
            /** @description `passed`, `failed`, or `not-valid`: it is a part, or it cannot be told. */
            verdict: string;
        };
        /** @description A figure on one target. */
        LabRow: {
            /** @description Between which values it lies, at 95 of 100; absent with too few repetitions. */
            interval?: number[] | null;
            /** @description Which variant; empty where there is one. */
            of: string;
            target: string;
            /**
             * Format: double
             * @description Absent: it was not measured.
             */
            value?: number | null;
        };
        /** @description How long requests took over a longer time: a histogram for each step of the series. */
        Latencies: {
            /**
             * @description Where the classes end, from the fastest on: a request is in the first class that ends above its time.
             *     Behind them is one more class, which has no end.
             */
            bounds_micros: number[];
            /** @description `array`, or as in `pool:main` and `volume:db`. */
            object: string;
            range: components["schemas"]["HistoryRange"];
            /** Format: int64 */
            step_seconds: number;
            /** @description Oldest first; steps without requests are left out. */
            steps: components["schemas"]["LatencyStep"][];
        };
        /** @description How long requests took, in microseconds; each at most 6.25 % too high. */
        Latency: {
            /** Format: int64 */
            max: number;
            /** Format: int64 */
            p50: number;
            /** Format: int64 */
            p99: number;
        };
        /** @description Requests of one step, by class. */
        LatencyStep: {
            /** @description How many reads are in each class; empty classes at the end are left out. */
            reads: number[];
            /**
             * Format: int64
             * @description The end of the step.
             */
            unix_millis: number;
            /** @description How many writes are in each class; empty classes at the end are left out. */
            writes: number[];
        };
        /** @description A moment on the time line. Those by hand are kept; the others are made of what is there. */
        Mark: {
            /**
             * @description A number, where it was made by hand; it is never given twice.
             * @example 7
             */
            id: string;
            kind: components["schemas"]["MarkKind"];
            level?: components["schemas"]["EventLevel"] | null;
            /** @description What it is about, as in `volume db`; absent: the whole array. */
            object?: string | null;
            text: string;
            /** Format: int64 */
            unix_millis: number;
        };
        /** @description Request to make a mark. */
        MarkCreate: {
            /** @description It is about this database. Neither: about the whole array. */
            database?: string | null;
            /**
             * @description One line of 1 to 200 letters.
             * @example version 4.2 goes live
             */
            text: string;
            /**
             * Format: uint64
             * @description When it was; absent: now.
             */
            unix_millis?: number | null;
            /** @description It is about this volume. */
            volume?: string | null;
        };
        /**
         * @description What a mark is of.
         * @enum {string}
         */
        MarkKind: "by-hand" | "snapshot" | "job" | "event";
        /**
         * @description A kind of object.
         * @enum {string}
         */
        ObjectKind: "pool" | "drive" | "volume" | "snapshot" | "deleted-volume" | "database" | "schedule" | "objective" | "mark" | "attachment" | "host" | "export" | "client" | "job" | "lab-result" | "user" | "token";
        /** @description An object by its kind and name. */
        ObjectName: {
            kind: components["schemas"]["ObjectKind"];
            /**
             * @description As paths of requests have it. A drive is called `POOL/NUMBER`.
             * @example db
             */
            name: string;
        };
        /**
         * @description An objective, and how it fares. It is judged by the minutes that the array remembers: one without requests
         *     is met, and one in which the array did not run is not counted.
         */
        Objective: {
            /**
             * Format: int64
             * @description How much of the time that it looks back is known.
             */
            covered_seconds: number;
            /** Format: double */
            for_percent: number;
            /** @description The requests of the last seconds are fast enough, or there are none. */
            is_met_now: boolean;
            /** @description More was missed than is permitted. */
            is_used_up: boolean;
            kind: components["schemas"]["ObjectiveKind"];
            /** Format: double */
            left_percent: number;
            /**
             * Format: int64
             * @description How much of that is left.
             */
            left_seconds: number;
            /**
             * Format: double
             * @description The share of the known minutes that were met.
             */
            met_percent: number;
            /**
             * Format: int64
             * @description The minutes that were not met.
             */
            missed_seconds: number;
            /** @description Of the volume or the database. */
            name: string;
            /** Format: int64 */
            over_seconds: number;
            /** Format: int64 */
            p99_micros: number;
            /**
             * Format: int64
             * @description How much may be missed in all.
             */
            permitted_seconds: number;
            pool: string;
            /**
             * Format: int64
             * @description The 99th percentile of the last seconds, of the slowest volume; absent without such requests.
             */
            present_p99_micros?: number | null;
            requests: components["schemas"]["ObjectiveRequests"];
            /** @description Whose requests are looked at: a minute is met if it is for each of them. */
            volumes: string[];
        };
        /**
         * @description What has an objective.
         * @enum {string}
         */
        ObjectiveKind: "database" | "volume";
        /**
         * @description Which requests an objective looks at.
         * @enum {string}
         */
        ObjectiveRequests: "all" | "reads" | "writes";
        /** @description Request to set an objective: in this share of the minutes 99 of 100 requests are as fast as this. */
        ObjectiveSet: {
            /**
             * Format: double
             * @description Above 0, at most 100.
             * @example 99.9
             */
            for_percent: number;
            /**
             * Format: int64
             * @description How far back it looks: 3600 to 604800, which is seven days and the default.
             * @example 604800
             */
            over_seconds?: number;
            /**
             * Format: int64
             * @description 1 to 60000000.
             * @example 2000
             */
            p99_micros: number;
            requests?: components["schemas"]["ObjectiveRequests"];
        };
        /** @description Counters of one kind of request. */
        OperationIo: {
            /** Format: int64 */
            bytes: number;
            /** Format: int64 */
            count: number;
            /** Format: int64 */
            errors: number;
            /** Format: int64 */
            latency_micros_max: number;
            /** Format: int64 */
            latency_micros_p50: number;
            /** Format: int64 */
            latency_micros_p99: number;
            /** @description `read`, `write`, `flush`, `unmap` or `write_zeroes`. */
            operation: string;
        };
        /**
         * @description What an attachment outlives.
         * @enum {string}
         */
        Outlives: "crash" | "stop" | "nothing";
        /** @description How the segments of a pool compare with their parity. Nothing was changed. */
        ParityCheck: {
            /**
             * Format: int64
             * @description Stripes compared with their parity; none in a pool without protection.
             */
            stripe_count: number;
            /**
             * Format: int64
             * @description Stripes that could not be: too many drives are out.
             */
            unproven_stripe_count: number;
            /**
             * Format: int64
             * @description Stripes that do not agree with their parity, or of which a drive in service cannot read its part: a
             *     scrub sets them right.
             */
            wrong_stripe_count: number;
        };
        /** @description Request of a user for another password of its own. All its sessions end. */
        PasswordChange: {
            /** @description The one it wants: 12 to 256 letters. */
            new_password: string;
            /** @description The one it has. */
            password: string;
        };
        /** @description A pool. */
        Pool: {
            /** @description The pool's own counters by name, since it was opened. */
            counters?: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Deleted volumes that can come back; `volume_count` does not count them.
             */
            deleted_volume_count?: number;
            drives: components["schemas"]["Drive"][];
            /**
             * Format: int32
             * @description How much of what hosts can use is alive, in per cent. What is free or known to be dead does not
             *     count; what died since the last mark still does. 0 while the pool could not be opened.
             */
            full_percent?: number;
            /**
             * Format: int64
             * @description How many superblocks the pool has written: of two states of its drives the higher is the newer.
             */
            generation: number;
            /** @description Identity drawn when the pool was created; empty while the pool could not be opened. */
            id: string;
            name: string;
            protection: components["schemas"]["Protection"];
            /**
             * Format: int64
             * @description The sizes of its volumes, added up. More than `usable_bytes` of `space` says that the pool can fill
             *     before its volumes do.
             */
            provisioned_bytes?: number;
            /** @description Why the pool is not online, or what it lacks though it is. */
            reason?: string | null;
            rebuild?: components["schemas"]["Rebuild"] | null;
            /** @description Why the last rebuild that failed did, since the pool was opened. */
            rebuild_error?: string | null;
            /**
             * Format: int64
             * @description Bytes on the drives that only deleted volumes hold: given up, they give them back. Absent while it is
             *     being counted.
             */
            recoverable_bytes?: number | null;
            recovery?: components["schemas"]["Recovery"] | null;
            removal?: components["schemas"]["Removal"] | null;
            scrub?: components["schemas"]["Scrub"] | null;
            /**
             * Format: int64
             * @description When the last scrub that came to its end did; before the first, since when this array knows the pool.
             */
            scrubbed_unix_seconds?: number | null;
            /**
             * Format: int32
             * @description How much of its segment numbers a pool has used, in per cent. Each is used once, however often space
             *     is written anew; at 100 the pool takes no more writes, and its volumes must move to another pool.
             */
            segment_numbers_percent?: number;
            /** Format: int64 */
            snapshot_count: number;
            space?: components["schemas"]["Space"] | null;
            state: components["schemas"]["PoolState"];
            /** @description What was named when the pool was opened and is no drive of it, each with the reason. */
            unused_drives?: string[];
            /** Format: int64 */
            volume_count: number;
            /** @description Volumes whose limit has refused a write and that are not well below it since. */
            volumes_at_limit?: string[];
        };
        /** @description Request to create a pool. */
        PoolCreate: {
            drives: components["schemas"]["DriveSpec"][];
            /** @example main */
            name: string;
            protection?: components["schemas"]["Protection"];
            /**
             * Format: int32
             * @description Drives for which there is spare space, on all of them: what a lost drive held is restored there. None
             *     when absent. Only with protection.
             */
            spare_count?: number | null;
            /**
             * Format: int32
             * @description Drives that a segment is spread over, parity included: more keep more of the space for data. All
             *     drives up to 16 when absent, but those of spare space. Only with protection.
             */
            width?: number | null;
        };
        /** @description A pool in one interval. */
        PoolFigures: {
            /** Format: double */
            drive_read_bytes_per_second: number;
            /** Format: double */
            drive_write_bytes_per_second: number;
            /** Format: int32 */
            full_percent: number;
            pool: string;
            /** @description Its volumes together. */
            rates: components["schemas"]["Rates"];
            /** @description Where the time of reads went, by stage; empty without reads. */
            read_stages?: components["schemas"]["StageTime"][];
            /** @description Where the time of writes went, by stage; empty without writes. */
            write_stages?: components["schemas"]["StageTime"][];
        };
        /** @description Request to open a pool that other drives' owner exported, or that failed to open before. */
        PoolImport: {
            /** @description Open it although its drives are older than they were. What was written since is lost or damaged. */
            accept_older_state?: boolean;
            /** @description Absolute paths of all the pool's drives; empty: the paths recorded for a pool that failed to open. */
            drives?: string[];
            /** @description Open it although another array has it open. That one stops with errors. */
            force?: boolean;
        };
        /** @description A pool's accounts. What is absent only a walk tells. */
        PoolSpace: {
            basis: components["schemas"]["SpaceBasis"];
            /**
             * Format: int64
             * @description Blocks referred to, less what they take as stored. Below zero when headers outweigh compression.
             */
            compression_saved_bytes?: number | null;
            /**
             * Format: int64
             * @description Of that, found by dedupe to have equal content; the rest is saved by snapshots and clones.
             */
            content_saved_bytes?: number | null;
            /** @description Deleted volumes that can come back, by name. */
            deleted_volumes?: components["schemas"]["VolumeSpace"][];
            /** Format: int64 */
            duration_millis: number;
            /**
             * Format: int64
             * @description Of the metadata in use, map pages.
             */
            map_page_bytes?: number | null;
            parts: components["schemas"]["SpaceParts"];
            pool: string;
            /**
             * Format: int64
             * @description Sizes promised to hosts: of deleted volumes nothing is.
             */
            provisioned_bytes: number;
            /** @description Why there was no walk though one was asked for. */
            reason?: string | null;
            /**
             * Format: int64
             * @description Chunks that several volumes and snapshots refer to, with what is stranded in them.
             */
            shared_bytes?: number | null;
            /**
             * Format: int64
             * @description What is referred to more than once, as often as it is referred to beyond the first time, before
             *     compression: by snapshots and clones, and by equal content.
             */
            sharing_saved_bytes?: number | null;
            /** @description The snapshots' images, by name. */
            snapshots: components["schemas"]["VolumeSpace"][];
            /** @description The volumes, by name. */
            volumes: components["schemas"]["VolumeSpace"][];
            /**
             * Format: int64
             * @description Mapped to data, volumes, snapshots and deleted volumes together. Less the two savings it is
             *     `data_alive_bytes` and `recoverable_bytes`.
             */
            written_bytes?: number | null;
        };
        /**
         * @description Whether a pool serves.
         * @enum {string}
         */
        PoolState: "opening" | "online" | "degraded" | "read-only" | "waiting" | "failed";
        /** @description A pool in one line. */
        PoolSummary: {
            /** Format: int64 */
            free_bytes: number;
            /**
             * Format: int32
             * @description How much of what hosts can use is alive, in per cent; what the cleaner can free is not.
             */
            full_percent?: number;
            name: string;
            /** Format: int64 */
            physical_bytes: number;
            reason?: string | null;
            recovery?: components["schemas"]["Recovery"] | null;
            /** Format: int64 */
            snapshot_count: number;
            state: components["schemas"]["PoolState"];
            /** Format: int64 */
            volume_count: number;
        };
        /** @description Body of every answer that is not a success, as `application/problem+json` (RFC 9457). */
        Problem: {
            /**
             * @description What went wrong, with which object, and why.
             * @example volume `db` does not exist
             */
            detail: string;
            kind: components["schemas"]["ErrorKind"];
            object?: components["schemas"]["ObjectName"] | null;
            reason?: components["schemas"]["Reason"] | null;
            remedy: components["schemas"]["Remedy"];
            /**
             * Format: int32
             * @description The HTTP status.
             * @example 404
             */
            status: number;
            /**
             * @description The same for every problem of this kind.
             * @example There is no such object
             */
            title: string;
            /**
             * @description Where this kind of problem is described, at the array that answers.
             * @example /docs/reference/errors.md#not-found
             */
            type: string;
        };
        /**
         * @description How a volume's host writes, which decides how blocks are compressed together.
         * @enum {string}
         */
        Profile: "oltp" | "general" | "bulk";
        /** @description What a program is: whether it can take over from another. */
        Program: {
            /**
             * Format: int32
             * @description Version of what it leaves to its successor about attached volumes.
             */
            handover_version: number;
            /**
             * Format: int32
             * @description Version of what it writes to drives.
             */
            media_version: number;
            version: string;
        };
        /**
         * @description What the numbers of a progress count.
         * @enum {string}
         */
        ProgressUnit: "bytes" | "segments";
        /**
         * @description How a pool outlives the loss of drives. Chosen when it is created.
         * @enum {string}
         */
        Protection: "none" | "single" | "dual";
        /** @description Requests of hosts in one interval. */
        Rates: {
            /**
             * Format: double
             * @description Requests that were refused or failed.
             */
            errors_per_second: number;
            /**
             * Format: double
             * @description Flushes, unmaps and writes of zeroes.
             */
            others_per_second: number;
            /** Format: double */
            read_bytes_per_second: number;
            read_latency_micros?: components["schemas"]["Latency"] | null;
            /** Format: double */
            reads_per_second: number;
            /** Format: double */
            write_bytes_per_second: number;
            write_latency_micros?: components["schemas"]["Latency"] | null;
            /** Format: double */
            writes_per_second: number;
        };
        /**
         * @description What exactly went wrong. More may come: treat one that you do not know as none.
         * @enum {string}
         */
        Reason: "not-json" | "wrong-field" | "wrong-parameter" | "unknown-parameter" | "wrong-name" | "wrong-cursor" | "does-not-fit" | "wrong-settings" | "other-site" | "root-only" | "role-too-low" | "token-limited" | "token-expired" | "wrong-login" | "place-not-allowed" | "in-use" | "attached" | "exported" | "held" | "not-empty" | "worked-on" | "key-under-way" | "not-cancellable" | "job-ended" | "stopping" | "overloaded" | "pool-closed";
        /** @description A drive that is given what it lacks. */
        Rebuild: {
            /**
             * Format: int64
             * @description Written so far.
             */
            done_bytes: number;
            /** Format: int32 */
            drive_number: number;
            /** Format: int64 */
            elapsed_millis: number;
            /**
             * Format: int64
             * @description At the pace so far; absent before there is one.
             */
            remaining_millis?: number | null;
            /**
             * Format: int64
             * @description To write to it.
             */
            total_bytes: number;
        };
        /** @description What deleting a set would give back, exact at the checkpoint taken first. Nothing was deleted. */
        Reclaim: {
            /**
             * Format: int64
             * @description Chunks that nothing else refers to.
             */
            chunk_bytes: number;
            /** Format: int64 */
            chunk_count: number;
            /** Format: int64 */
            duration_millis: number;
            /** @description Snapshots of the set that are held, and so cannot be deleted before they are released. */
            held?: string[];
            /**
             * Format: int64
             * @description Chunks the set refers to that stay, because others do, too.
             */
            kept_bytes: number;
            /**
             * Format: int64
             * @description Map pages that nothing else refers to.
             */
            map_page_bytes: number;
            /** Format: int64 */
            map_page_count: number;
            /** @description Every volume and image in the set. */
            members: string[];
        };
        /** @description Question: what would deleting all these together give back? */
        ReclaimRequest: {
            /**
             * @description `VOLUME`, `SNAPSHOT` or `VOLUME@SNAPSHOT`; `volume:NAME` or `snapshot:NAME` where both exist;
             *     `VOLUME:ID` of a deleted volume.
             */
            names: string[];
            /**
             * Format: int64
             * @description Counting ends after so long.
             * @default 60
             */
            within_seconds: number;
        };
        /** @description What start-up recovery did. */
        Recovery: {
            /** Format: int64 */
            groups_replayed: number;
            /** Format: int64 */
            millis: number;
            /** Format: int64 */
            records_replayed: number;
            steps: components["schemas"]["RecoveryStep"][];
        };
        /** @description One named step of recovery. */
        RecoveryStep: {
            /** Format: int64 */
            micros: number;
            name: string;
        };
        /**
         * @description How a relation differs.
         * @enum {string}
         */
        RelationChange: "changed" | "rewritten" | "only-in-a" | "only-in-b";
        /** @description A relation that differs. */
        RelationDiff: {
            change: components["schemas"]["RelationChange"];
            /** @description The database within the server; absent: all of them share it. */
            database?: string | null;
            /** Format: int64 */
            different_bytes: number;
            /**
             * Format: int64
             * @description Pages that differ, with those of its free space and visibility maps.
             */
            different_pages_count: number;
            /** @description It is of PostgreSQL's own catalogues. */
            is_system: boolean;
            /**
             * @description `table`, `index`, `toast`, `toast-index`, `sequence`, `materialized-view`, or `unnamed` where no
             *     catalogue that can be read has it.
             * @example table
             */
            kind: string;
            /**
             * @description With its schema; the path of its file where the catalogue names none.
             * @example public.orders
             */
            name: string;
            /** @description The table that an index or a toast table belongs to. */
            of?: string | null;
        };
        /** @description What reading the settings again did. */
        Reloaded: {
            /** @description Settings that are in force from now on. */
            changed: string[];
            /** @description The file that was read. */
            file: string;
            /** @description Settings that the file says otherwise, and that change at the next start. */
            needs_restart: string[];
        };
        /** @description What to do about a problem, twice. */
        Remedy: {
            /**
             * @description For a person at the command line.
             * @example `ashlar volume list` shows those there are
             */
            command: string;
            /**
             * @description For a program: the same with requests and fields in the place of commands and options.
             * @example `GET /v1/volumes` shows those there are
             */
            request: string;
        };
        /** @description A drive that leaves its pool: what is on it moves to the others. */
        Removal: {
            /**
             * Format: int64
             * @description Of these, in segments that are on it no more.
             */
            done_bytes: number;
            /** Format: int32 */
            drive_number: number;
            /**
             * Format: int64
             * @description Since it began to leave, or the pool was opened.
             */
            elapsed_millis: number;
            /**
             * Format: int64
             * @description At the pace so far; absent before there is one.
             */
            remaining_millis?: number | null;
            /**
             * Format: int64
             * @description In segments that were on it when it began to leave, or when the pool was opened.
             */
            total_bytes: number;
            /** @description Why it does not go on; it is tried again. Absent while it does. */
            trouble?: string | null;
        };
        /** @description Requests of one kind. */
        RequestProfile: {
            /** Format: int64 */
            count: number;
            /**
             * Format: int64
             * @description Those that began where one of the eight before them ended. The others are random.
             */
            sequential_count: number;
            /** @description By length, the shortest first; classes without requests are left out. */
            sizes: components["schemas"]["SizeClass"][];
        };
        /** @description What a restore did. */
        Restored: {
            /** @description The snapshot that holds what they were before; absent when none was wanted. */
            backup?: string | null;
            snapshot: string;
            /** @description The volumes that are as they were in it. */
            volumes: string[];
        };
        /**
         * @description What somebody may do. Each may what the one before it may.
         * @enum {string}
         */
        Role: "viewer" | "operator" | "admin";
        /** @description A schedule. */
        Schedule: {
            /** Format: int64 */
            created_unix_seconds: number;
            /** @description What snapshots are taken of: databases or volumes, the others are empty. */
            databases?: string[];
            /**
             * Format: int64
             * @description How often, aligned to the clock.
             */
            every_seconds: number;
            /** @description Of these, those that somebody holds: they stay. */
            held_count: number;
            /**
             * @description Which snapshots stay.
             * @example hourly=24,daily=7,weekly=4
             */
            keep: string;
            last_proof?: components["schemas"]["ScheduleProof"] | null;
            /** @description The newest of them. */
            last_snapshot?: string | null;
            /** Format: int64 */
            last_unix_seconds?: number | null;
            name: string;
            /**
             * Format: int64
             * @description When the next is due; absent while it is paused.
             */
            next_unix_seconds?: number | null;
            pool: string;
            /**
             * Format: int32
             * @description One of so many snapshots is proven.
             */
            prove_every_count?: number | null;
            /** @description Why none is taken. */
            reason?: string | null;
            /** @description Its snapshots that are there. */
            snapshot_count: number;
            state: components["schemas"]["ScheduleState"];
            volumes?: string[];
        };
        /**
         * @description Request to change a schedule in place. What is absent stays. Its snapshots stay its own: those that a new
         *     rule does not keep are deleted in turn.
         */
        ScheduleChange: {
            /**
             * Format: int64
             * @description How often, aligned to the clock. 1 to 31622400.
             * @example 900
             */
            every_seconds?: number | null;
            /** @description While it is paused it takes no snapshots, and deletes none. */
            is_paused?: boolean | null;
            /**
             * @description Which snapshots stay.
             * @example hourly=24,daily=7,weekly=4
             */
            keep?: string | null;
        };
        /** @description Request to make a schedule. Its first snapshot is taken when the next is due. */
        ScheduleCreate: {
            /** @description Databases of one pool, all at one instant; or `volumes`. */
            databases?: string[];
            /**
             * Format: int64
             * @description How often, aligned to the clock: 900 is at :00, :15, :30 and :45, in UTC. 1 to 31622400.
             * @example 900
             */
            every_seconds: number;
            /**
             * @description Which snapshots stay: the newest of each of so many `seconds`, `minutes`, hours (`hourly`), days
             *     (`daily`), weeks (`weekly`) and months (`monthly`) that have one, and so many of the `last`.
             * @example hourly=24,daily=7,weekly=4
             */
            keep: string;
            /**
             * @description Its snapshots are called NAME and the time: `prod.20261128T130507Z`.
             * @example prod
             */
            name: string;
            /**
             * Format: int32
             * @description One of so many snapshots is proven, as `database verify` does; only of databases. Absent: none.
             */
            prove_every_count?: number | null;
            /** @description Volumes of one pool, all at one instant; or `databases`. */
            volumes?: string[];
        };
        /** @description What the deleting of a schedule did. */
        ScheduleDeletion: {
            /** @description Snapshots of it that were deleted with it. */
            deleted_count: number;
            /** @description Snapshots of it that stay, and nobody deletes by themselves any more. */
            left_count: number;
            name: string;
        };
        /** @description Whether a snapshot of a schedule recovers and is whole. */
        ScheduleProof: {
            database: string;
            is_proven: boolean;
            /** Format: int64 */
            proven_unix_seconds: number;
            snapshot: string;
        };
        /**
         * @description What a schedule does.
         * @enum {string}
         */
        ScheduleState: "active" | "paused" | "no-space" | "failing";
        /** @description A scrub under way: everything is checked first, then segments are compared with their parity. */
        Scrub: {
            /**
             * Format: int64
             * @description Segments compared.
             */
            done_segment_count: number;
            /** Format: int64 */
            elapsed_millis: number;
            /** @description It is held until it is resumed. */
            is_paused: boolean;
            /**
             * Format: int64
             * @description Segments to compare; 0 while it checks.
             */
            total_segment_count: number;
        };
        /**
         * @description What to do with the scrub under way.
         * @enum {string}
         */
        ScrubAction: "pause" | "resume" | "stop";
        /** @description Request to change the scrub under way. */
        ScrubChange: {
            action: components["schemas"]["ScrubAction"];
        };
        /** @description Result of a scrub: a check, then every segment compared with its parity. */
        ScrubReport: {
            /** @description Everything in use, read and verified. What was wrong and could be computed is no error. */
            check: components["schemas"]["CheckReport"];
            /**
             * Format: int64
             * @description Blocks of data set right by comparing.
             */
            data_block_count: number;
            /** Format: int64 */
            duration_millis: number;
            /**
             * Format: int64
             * @description Blocks computed from other drives and written back since the pool was opened, by this and by reads.
             */
            mended_block_count: number;
            /**
             * Format: int64
             * @description Blocks of parity set right.
             */
            parity_block_count: number;
            /**
             * Format: int64
             * @description Stripes compared with their parity; none in a pool without protection.
             */
            stripe_count: number;
            /**
             * Format: int64
             * @description Stripes that could not be: too many drives are out.
             */
            unproven_stripe_count: number;
        };
        /** @description What the one who asks may do. */
        Session: {
            /** @description Another one for each start of the array. */
            boot_id: string;
            caller: components["schemas"]["CallerKind"];
            /** @description Where it may name drives; absent: anywhere. */
            drive_places?: string[] | null;
            /** @description Where it may mount; absent: anywhere. */
            mount_places?: string[] | null;
            /**
             * @description The ids of operations of this description that are refused to it.
             * @example [
             *       "database_create",
             *       "stop"
             *     ]
             */
            refused_operations: string[];
            role: components["schemas"]["Role"];
            /** @description The token that was shown, by its name. */
            token?: string | null;
            /** @description The user who asks. */
            user?: string | null;
        };
        /** @description Somebody logs in. */
        SessionCreate: {
            password: string;
            /** @example ada */
            user: string;
        };
        /** @description A session of a user. */
        SessionOpened: {
            /**
             * Format: int64
             * @description It ends then, and earlier when the user is deleted, disabled, or gets another role or password.
             */
            expires_seconds: number;
            role: components["schemas"]["Role"];
            /** @description For `Authorization: Bearer`. */
            token: string;
            user: string;
        };
        /** @description A setting. */
        Setting: {
            is_default: boolean;
            /** @description A reload changes it; otherwise the next start does. */
            is_reloadable: boolean;
            /** @example deleted_volumes_hours */
            name: string;
            /**
             * @description As a settings file says it. Arguments of commands and paths of web addresses are left out.
             * @example 24
             */
            value: string;
        };
        /** @description Requests of like length. */
        SizeClass: {
            /** Format: int64 */
            count: number;
            /**
             * Format: int64
             * @description A power of two: requests so long, and shorter ones down to half of it. The first class, 512, has all
             *     that are shorter, too.
             */
            up_to_bytes: number;
        };
        /** @description A request that took long. */
        SlowRequest: {
            /** Format: int64 */
            length_bytes: number;
            /**
             * Format: int64
             * @description The whole time in the pool.
             */
            micros: number;
            /** Format: int64 */
            offset_bytes: number;
            /** @description `read` or `write`. */
            operation: string;
            pool: string;
            /** @description By stage, in microseconds; those that took nothing are left out. */
            stages: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description When it ended.
             */
            unix_millis: number;
            /** @description The volume, or the image as in `db@noon`; absent when it is gone. */
            volume?: string | null;
        };
        /** @description A read-only image of one or more volumes at one instant. */
        Snapshot: {
            /** Format: int64 */
            created_unix_seconds: number;
            hold?: components["schemas"]["SnapshotHold"] | null;
            name: string;
            pool: string;
            /**
             * Format: int64
             * @description Sum of the sizes the volumes had.
             */
            size_bytes: number;
            volumes: string[];
        };
        /** @description Request to take a snapshot of all the named volumes at one instant. */
        SnapshotCreate: {
            /** @example before-upgrade */
            name: string;
            /** @description Volumes of one pool. */
            volumes: string[];
        };
        /** @description A hold: while it is there nobody and nothing deletes the snapshot. */
        SnapshotHold: {
            /** @description What a person wrote when it was put; may be empty. */
            reason: string;
            /** Format: int64 */
            since_unix_seconds: number;
        };
        /** @description Request to delete snapshots together. Where one cannot be deleted none is. */
        SnapshotsDelete: {
            /** @description Deletes them though somebody reads one, who then gets errors. */
            force?: boolean;
            names: string[];
        };
        /** @description Where a pool's bytes are. The parts sum to `physical_bytes`; `dead_bytes` is in them. */
        Space: {
            /**
             * Format: int64
             * @description Segments of data, live or not yet cleaned.
             */
            data_bytes: number;
            /**
             * Format: int64
             * @description Of `data_bytes` and `metadata_bytes`: what nothing referred to when the cleaner last looked. It makes
             *     room of it when writes need it.
             */
            dead_bytes?: number;
            /**
             * Format: int64
             * @description Free for the writes of any host at once. A pool in use has little of it, however much of it is dead.
             */
            free_bytes: number;
            /**
             * Format: int64
             * @description Freed, not yet reusable.
             */
            freed_bytes: number;
            /**
             * Format: int64
             * @description The journal.
             */
            journal_bytes: number;
            /**
             * Format: int64
             * @description Free, kept for volumes that have a reserve.
             */
            kept_bytes?: number;
            /**
             * Format: int64
             * @description Segments of map and table pages, live or not yet cleaned.
             */
            metadata_bytes: number;
            /**
             * Format: int64
             * @description Parity columns.
             */
            parity_bytes?: number;
            /**
             * Format: int64
             * @description The drives' sizes.
             */
            physical_bytes: number;
            /**
             * Format: int64
             * @description Free, kept for deletes, unmap and checkpoints.
             */
            reserve_bytes: number;
            /**
             * Format: int64
             * @description Spare space that no drive lives in.
             */
            spare_bytes?: number;
            /**
             * Format: int64
             * @description Superblock areas.
             */
            superblock_bytes: number;
            /**
             * Format: int64
             * @description What the pool cannot use: what larger drives have beyond the others, what is left at the drives' ends,
             *     and what is free on a drive that leaves.
             */
            unusable_bytes?: number;
        };
        /**
         * @description How the parts of a pool were found.
         * @enum {string}
         */
        SpaceBasis: "walk" | "last-mark";
        /** @description Where a pool's bytes are. All fields but `physical_bytes` sum to it. */
        SpaceParts: {
            /**
             * Format: int64
             * @description Blocks that a volume or snapshot refers to, as stored: compressed, with headers.
             */
            data_alive_bytes: number;
            /**
             * Format: int64
             * @description Written and not in use: deleted and overwritten data the cleaner has not taken yet, journal
             *     headers, padding.
             */
            dead_bytes: number;
            /**
             * Format: int64
             * @description Free for the writes of any host.
             */
            free_bytes: number;
            /**
             * Format: int64
             * @description Freed, being released.
             */
            freed_bytes: number;
            /**
             * Format: int64
             * @description Free, kept for volumes that have a reserve.
             */
            kept_bytes?: number;
            /**
             * Format: int64
             * @description Page records of maps and tables in use.
             */
            metadata_alive_bytes: number;
            /**
             * Format: int64
             * @description Parity columns.
             */
            parity_bytes?: number;
            /**
             * Format: int64
             * @description The drives' sizes.
             */
            physical_bytes: number;
            /**
             * Format: int64
             * @description Journal written while this was counted.
             */
            recent_bytes: number;
            /**
             * Format: int64
             * @description Blocks that only deleted volumes refer to which can come back, as stored. Absent without a walk: they
             *     are in `data_alive_bytes` then.
             */
            recoverable_bytes?: number | null;
            /**
             * Format: int64
             * @description Free, kept for deletes, unmap and checkpoints.
             */
            reserve_bytes: number;
            /**
             * Format: int64
             * @description Not written: the rest of segments.
             */
            slack_bytes: number;
            /**
             * Format: int64
             * @description Spare space that no drive lives in.
             */
            spare_bytes?: number;
            /**
             * Format: int64
             * @description Blocks that nothing refers to any more, compressed together with others that something refers to:
             *     their share. They go when the cleaner moves what is left. Absent without a walk: they are in
             *     `data_alive_bytes` then.
             */
            stranded_bytes?: number | null;
            /**
             * Format: int64
             * @description Superblock areas.
             */
            superblock_bytes: number;
            /**
             * Format: int64
             * @description What the pool cannot use: what larger drives have beyond the others, what is left at the drives' ends,
             *     and what is free on a drive that leaves.
             */
            unusable_bytes?: number;
        };
        /**
         * @description What a stage took in an interval. The means of all stages add up to the mean time in the pool; what the
         *     door counts beyond that is its queue and the wire.
         */
        StageTime: {
            /**
             * Format: double
             * @description Over all requests, also those without this stage.
             */
            mean_micros: number;
            /**
             * Format: int64
             * @description Of the requests that had it.
             */
            p99_micros: number;
            /**
             * @description `turn`: another request to the same blocks. `map`: pages of the map. `room`: in memory and in the
             *     pool. `reduction`: the processor, compressing and back. `journal`: until a write is durable.
             *     `drive`: a read of the drives.
             */
            stage: string;
        };
        /** @description The array as a whole. */
        Status: {
            /** Format: int64 */
            attachment_count: number;
            /** @description Another one for each start of the array. */
            boot_id?: string;
            /**
             * Format: int64
             * @description Processor time used since the start.
             */
            cpu_micros: number;
            doors: components["schemas"]["Door"][];
            /**
             * Format: int64
             * @description How long attached volumes waited when this array took them over from the last one.
             */
            handover_pause_millis?: number | null;
            /**
             * @description Which driver does the input and output, and why.
             * @example io: io_uring (kernel 6.18)
             */
            io_driver: string;
            /**
             * Format: int64
             * @description Memory resident now.
             */
            memory_resident_bytes: number;
            pools: components["schemas"]["PoolSummary"][];
            /** Format: int32 */
            process_id: number;
            /**
             * Format: int64
             * @description When the array started, in milliseconds since 1970.
             */
            started_unix_millis?: number;
            state_directory: string;
            /** Format: int64 */
            uptime_seconds: number;
            version: string;
        };
        /** @description Request to stop the array. */
        StopRequest: {
            /**
             * @description Unmounts and detaches every volume first; refused while one is in use. Without, what is attached
             *     waits for the next array.
             */
            detach?: boolean;
            /** @description Takes volumes out of sight although they are in use. */
            force?: boolean;
        };
        /** @description Request to make a token. */
        TokenCreate: {
            /**
             * Format: int64
             * @description How long it opens anything; absent: until it is deleted.
             */
            expires_after_seconds?: number | null;
            /** @example backup */
            name: string;
            only?: components["schemas"]["TokenScope"] | null;
            role: components["schemas"]["Role"];
        };
        /** @description A new token with its secret, which is told this once. */
        TokenCreated: {
            /** @description For `Authorization: Bearer`. */
            secret: string;
            token: components["schemas"]["ApiToken"];
        };
        /**
         * @description The only thing that a token is for.
         * @enum {string}
         */
        TokenScope: "metrics" | "snapshots";
        /** @description Request to go on with another program. */
        UpgradeRequest: {
            /**
             * @description Absolute path of the program.
             * @example /usr/bin/ashlar
             */
            program: string;
        };
        /**
         * @description How a volume is used.
         * @enum {string}
         */
        UseKind: "attachment" | "mount" | "device" | "process" | "nbd" | "iscsi" | "unknown";
        /** @description A user of the array. The password is never shown. */
        User: {
            /** Format: int64 */
            created_unix_seconds: number;
            /** @description It cannot log in. */
            is_disabled: boolean;
            /**
             * Format: int64
             * @description Absent: never.
             */
            last_login_unix_seconds?: number | null;
            /** @example ada */
            name: string;
            /** Format: int64 */
            password_set_unix_seconds: number;
            role: components["schemas"]["Role"];
            /**
             * Format: int64
             * @description Where it is logged in now, counted.
             */
            session_count: number;
        };
        /** @description Request to change a user: what is absent stays. Its sessions end. */
        UserChange: {
            is_disabled?: boolean | null;
            /** @description Another password: 12 to 256 letters. */
            password?: string | null;
            role?: components["schemas"]["Role"] | null;
        };
        /** @description Request to make a user. */
        UserCreate: {
            /** @example ada */
            name: string;
            /** @description 12 to 256 letters. Only a hash of it is kept. */
            password: string;
            role: components["schemas"]["Role"];
        };
        /** @description A volume. */
        Volume: {
            /**
             * Format: int64
             * @description So many seconds of these rates may be used at once after an idle time; absent: none.
             */
            burst_seconds?: number | null;
            /**
             * Format: int64
             * @description Bytes a second that hosts may read and write; absent: no limit.
             */
            bytes_per_second?: number | null;
            /** @description Whether its requests give way to those of others. */
            class?: components["schemas"]["VolumeClass"];
            compression: components["schemas"]["Compression"];
            /** Format: int64 */
            created_unix_seconds: number;
            /** @description Whether blocks equal to others of the pool are stored once. */
            dedupe: boolean;
            /** @description The block device it is attached to on this machine. */
            device?: string | null;
            floor?: components["schemas"]["VolumeFloor"] | null;
            /**
             * Format: int64
             * @description Within what time its reads and writes should be answered; absent: it has no floor.
             */
            floor_micros?: number | null;
            /**
             * Format: int64
             * @description Number of the volume in its pool; never used again after a delete.
             */
            id: number;
            /**
             * Format: int64
             * @description Bytes on the drives that the volume may have of its own at most; absent: no limit.
             */
            limit_bytes?: number | null;
            /** Format: int32 */
            logical_block_bytes: number;
            name: string;
            /** @description What the volume was cloned from. */
            origin?: string | null;
            /**
             * Format: int64
             * @description Bytes on the drives of what the volume wrote itself and still refers to, snapshots of it not counted;
             *     of a clone what it wrote since it was made. Limit and reserve go by it.
             */
            own_bytes?: number;
            pool: string;
            profile: components["schemas"]["Profile"];
            /**
             * Format: int64
             * @description Requests a second that hosts may make; absent: no limit.
             */
            requests_per_second?: number | null;
            /**
             * Format: int64
             * @description Bytes of the pool kept for the volume, with what it has of its own already; absent: none.
             */
            reserve_bytes?: number | null;
            /**
             * Format: int64
             * @description Size the host sees.
             */
            size_bytes: number;
            /**
             * Format: int64
             * @description Bytes on the drives that only this volume holds; deleting it gives them back. Absent while it
             *     is being counted.
             */
            unique_bytes?: number | null;
            /**
             * Format: int64
             * @description Bytes of the volume that hold data. Absent while they are counted anew, after a shrink for one.
             */
            written_bytes?: number | null;
        };
        /**
         * @description Whether a volume's requests give way to those of others.
         * @enum {string}
         */
        VolumeClass: "normal" | "low";
        /** @description Request to create a thin volume. */
        VolumeCreate: {
            /** @description Whether its requests give way to those of others. */
            class?: components["schemas"]["VolumeClass"];
            compression?: components["schemas"]["Compression"];
            /** @description Whether blocks equal to others of the pool are stored once. */
            dedupe?: boolean;
            /**
             * Format: int64
             * @description Within what time its reads and writes should be answered, 100 us to 1 s: while they are not,
             *     background work and other volumes are held back. Absent or 0: no floor. Not with class `low`.
             * @example 2000
             */
            floor_micros?: number | null;
            /**
             * Format: int64
             * @description Bytes on the drives that the volume may have of its own at most; absent: no limit.
             */
            limit_bytes?: number | null;
            /**
             * Format: int32
             * @description 512 or 4096.
             * @default 4096
             * @enum {integer}
             */
            logical_block_bytes: 512 | 4096;
            /** @example db */
            name: string;
            /** @description May be left out when there is one pool. */
            pool?: string | null;
            profile?: components["schemas"]["Profile"];
            /**
             * Format: uint64
             * @description Bytes of the pool kept for the volume, with what it has of its own already; absent: none.
             */
            reserve_bytes?: number | null;
            /**
             * Format: int64
             * @description A multiple of 4096, at most 256 TiB.
             * @example 68719476736
             */
            size_bytes: number;
        };
        /** @description What a delete did. */
        VolumeDeletion: {
            /**
             * Format: int64
             * @description Number of the volume in its pool.
             */
            id: number;
            name: string;
            pool: string;
            /**
             * Format: int64
             * @description How long it can come back; 0: it is gone.
             */
            recoverable_seconds: number;
        };
        /**
         * @description What differs between two volumes or images, found by their maps alone: blocks that are stored at the same
         *     place are equal, and so are zeroes and what was never written. A block that is told may be equal all the
         *     same, if the same bytes were written again; one that is not told is equal.
         */
        VolumeDiff: {
            a: string;
            /**
             * Format: int64
             * @description The size of `a`.
             */
            a_size_bytes: number;
            b: string;
            /**
             * Format: int64
             * @description The size of `b`.
             */
            b_size_bytes: number;
            /**
             * Format: int64
             * @description All that differs from there to the end, listed below or not.
             */
            different_bytes: number;
            /**
             * Format: int64
             * @description How long it took.
             */
            duration_millis: number;
            /**
             * Format: int64
             * @description Where the question begins: nothing before it is counted or listed.
             */
            from_bytes: number;
            /**
             * Format: int64
             * @description Where the list goes on; absent: it is complete.
             */
            next_bytes?: number | null;
            /** @description What differs, in order, as far as it is listed. */
            ranges: components["schemas"]["ByteRange"][];
        };
        /** @description A volume in one interval, over all doors. */
        VolumeFigures: {
            rates: components["schemas"]["Rates"];
            volume: string;
        };
        /** @description How a volume's floor is kept, since its pool was opened. */
        VolumeFloor: {
            /**
             * Format: int32
             * @description So many requests of volumes without a floor, or with a longer one, are served at a time now; absent:
             *     they are not held back.
             */
            depth_count?: number | null;
            /**
             * Format: int64
             * @description Those of them that took longer than the floor.
             */
            miss_count: number;
            /**
             * Format: int64
             * @description With a depth of 1: each begins no sooner than this after the last one.
             */
            pause_micros?: number | null;
            /**
             * Format: int64
             * @description Reads and writes that were served.
             */
            request_count: number;
            /**
             * Format: int64
             * @description Windows of time in which more than one in a hundred did.
             */
            window_missed_count: number;
        };
        /**
         * @description Request to change how a volume's data are reduced from now on, what it may take, what is kept for it, how
         *     fast it may be and who goes first; what is absent stays as it is. What is stored already stays as it is; a
         *     rebuild of dedupe looks at it.
         */
        VolumePolicy: {
            /**
             * Format: int64
             * @description So many seconds of these rates may be used at once after an idle time, at most an hour; 0: none. Needs
             *     a rate.
             */
            burst_seconds?: number | null;
            /**
             * Format: uint64
             * @description Bytes a second that hosts may read and write, at least 1 MiB; 0: no limit.
             */
            bytes_per_second?: number | null;
            class?: components["schemas"]["VolumeClass"] | null;
            compression?: components["schemas"]["Compression"] | null;
            dedupe?: boolean | null;
            /**
             * Format: int64
             * @description Within what time its reads and writes should be answered, 100 us to 1 s: while they are not,
             *     background work and other volumes are held back; 0: no floor. Not with class `low`.
             * @example 2000
             */
            floor_micros?: number | null;
            /**
             * Format: uint64
             * @description Bytes on the drives that the volume may have of its own at most; 0: no limit.
             */
            limit_bytes?: number | null;
            /**
             * Format: uint64
             * @description Requests a second that hosts may make, at least 10; 0: no limit.
             */
            requests_per_second?: number | null;
            /**
             * Format: uint64
             * @description Bytes of the pool kept for the volume, with what it has of its own already; 0: none.
             */
            reserve_bytes?: number | null;
        };
        /** @description Request to change a volume's size. */
        VolumeResize: {
            /** @description Cuts off what lies beyond the new end though a file system reaches there, and NBD clients. */
            force?: boolean;
            /** @description Needed to make a volume smaller, which drops the bytes beyond the new end. */
            may_shrink?: boolean;
            /**
             * Format: int64
             * @description The new size, a multiple of 4096, at most 256 TiB.
             */
            size_bytes: number;
        };
        /** @description The share of a volume, or of a volume's image in a snapshot. What is absent only a walk tells. */
        VolumeSpace: {
            /** @description `VOLUME`, `VOLUME@SNAPSHOT`, or `VOLUME:ID` of a deleted volume. */
            name: string;
            /**
             * Format: int64
             * @description Chunks only this one refers to, with what is stranded in them: deleting it alone gives them back.
             */
            only_bytes?: number | null;
            /**
             * Format: int64
             * @description The size promised. Written, zero and unwritten sum to it.
             */
            provisioned_bytes: number;
            /**
             * Format: int64
             * @description Of what is written, blocks in chunks that others refer to, too.
             */
            shared_written_bytes?: number | null;
            /**
             * Format: int64
             * @description Never written, or unmapped.
             */
            unwritten_bytes?: number | null;
            /**
             * Format: int64
             * @description Mapped to data, before compression.
             */
            written_bytes?: number | null;
            /**
             * Format: int64
             * @description Written as zeroes; takes no space.
             */
            zero_bytes?: number | null;
        };
        /** @description Request to bring a deleted volume back. */
        VolumeUndelete: {
            /** @description Its new name; absent: the one it had. */
            name?: string | null;
        };
        /** @description One user of a volume or of a snapshot's image of it. */
        VolumeUser: {
            /**
             * @description What ends this use.
             * @example `ashlar detach db`
             */
            action: string;
            /** @description Where an NBD client or a host is: an address, or a process of this machine. */
            client?: string | null;
            kind: components["schemas"]["UseKind"];
            /** @description The mount point, device or file that is used. */
            path?: string | null;
            /** Format: int32 */
            process_id?: number | null;
            process_name?: string | null;
            /**
             * @description VOLUME, or VOLUME@SNAPSHOT.
             * @example db
             */
            volume: string;
            /**
             * @description Who, in words.
             * @example process 4711 (dd) has /dev/loop0 open
             */
            who: string;
        };
        /**
         * @description Where the time of sessions goes.
         * @enum {string}
         */
        WaitCause: "storage" | "processor" | "locks" | "server" | "network";
    };
    responses: {
        /** @description Somebody or something uses it, holds it, or works on it. Nothing was changed. */
        busy: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Somebody had the job ended that did it: a check, a scrub, or an import, of which nothing is left. Nothing is in use. */
        cancelled: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `If-Match` names no state in which the object is: somebody changed it meanwhile. Nothing was changed. */
        changed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The array is stopping or has too much to do, or the pool is not open. */
        closed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description A checksum or a header on a drive is wrong, and no other drive can make up for it. */
        damaged: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description An object of this name is there, in any pool, or the drive belongs to something. */
        exists: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The request comes from a page of another site, asks for what takes a higher role, or for what only root over the socket may do or name. */
        forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description A field, a parameter, a header or the path is not what the operation takes, or its values do not go together. Nothing was changed. */
        invalid: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The same caller used this `Idempotency-Key` within 24 hours for a request with another path, query or body. Nothing was changed. */
        "key-reused": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The request has a body whose `Content-Type` is none, or another than `application/json`. */
        "media-type": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description A drive, a directory, a tool or the server of a database on this machine failed; `detail` names it. */
        medium: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The pool, a volume's limit or a file system of this machine is full. */
        "no-space": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The path is there; the header `Allow` lists the methods that it takes. */
        "no-such-method": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The object that `object` names does not exist, or there is no such path. */
        "not-found": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Any other problem: a method that the path does not take (405), a fault of this machine (500) */
        other: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description A drive too many is out, or the pool stopped to lose nothing. */
        "read-only": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description A body has at most 2 MiB. */
        "too-large": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Logins of this user or from this address failed again and again. Nothing was looked at. */
        "too-many": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The address asks for a token, and the request shows none, another, or one that opens nothing any more. A session ends after twelve hours, and when its user is deleted, disabled, or gets another role or password. Or a login gave a wrong user or password. */
        unauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    attachments_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "volume" | "device";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of volumes whose names begin so */
                name_prefix?: string;
                /** @description only those of volumes of this database */
                database?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Attachment"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    attachment_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AttachRequest"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Attachment"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    attachment_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Attachment"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    attachment_delete: {
        parameters: {
            query?: {
                /** @description unmount lazily what is in use; the device goes with its last user */
                force?: boolean;
            };
            header?: never;
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    audit_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "sequence";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those with a larger sequence number */
                after?: number;
                /** @description only those of this one, as in `user ada` */
                who?: string;
                /** @description only those since then */
                since_unix_millis?: number;
                /** @description only those that were refused or failed, or were not */
                is_refused?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditEntry"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    clients_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "id" | "volume";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those that use this volume, or VOLUME@SNAPSHOT */
                volume?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DoorClient"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    client_disconnect: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description id of the client */
                client: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    clone_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CloneCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    console_session_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ConsoleSessionCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsoleSession"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the ticket is used up, too old or none */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["forbidden"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    console_ticket_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsoleTicket"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description the address is taken */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_import: {
        parameters: {
            query?: {
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseImport"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_snapshot: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseSnapshot"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_follow: {
        parameters: {
            query?: {
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseFollow"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    databases_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "created" | "expires";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those in this pool */
                pool?: string;
                /** @description only those whose names begin so */
                name_prefix?: string;
                /** @description only those cloned from this database */
                origin?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Database"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Database"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_delete: {
        parameters: {
            query?: {
                /** @description delete its schedules, too */
                with_schedules?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseDeletion"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_clone: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseClone"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_commands: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseHooks"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Database"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_diff: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseDiffRequest"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseDiff"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_expire: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the clone */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseExpiry"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Database"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_handover: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the clone */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseHandover"];
                };
            };
            /** @description it is not away */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description one of its volumes is exported no more */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_promote: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabasePromotion"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_reset: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DatabaseReset"] | null;
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_resize: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseResize"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Database"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_restore: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseRestore"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_return: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the clone */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description it is not away */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_settings: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseSettings"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_settings_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DatabaseSettingsChange"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseSettings"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_start: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DatabaseStart"] | null;
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseReady"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Database"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_url: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseUrl"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    database_verify: {
        parameters: {
            query?: {
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DatabaseVerify"] | null;
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseProof"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description this machine is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    database_waits: {
        parameters: {
            query?: {
                /** @description how long, 1 to 60; absent: 3 */
                seconds?: number;
            };
            header?: never;
            path: {
                /** @description name of the database */
                database: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatabaseWaits"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description it does not run */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description this machine or the database is at fault */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    deleted_volumes_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "deleted" | "name" | "size";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of this pool */
                pool?: string;
                /** @description only those whose names began so */
                name_prefix?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedVolume"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    deleted_volume_purge: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description NAME, if there is one deleted volume of it, or NAME:ID */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_undelete: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description NAME of the one deleted last, or NAME:ID */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["VolumeUndelete"] | null;
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    events: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "sequence";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only events with a larger sequence number */
                after?: number;
                /** @description the boot id that `after` goes with: of another start of the array all events are answered */
                boot_id?: string;
                /** @description only those of this level or a worse one */
                level?: "info" | "warning" | "error";
                /** @description only those about this object, as in `volume db`, or about objects of this kind, as in `volume` */
                object?: string;
                /** @description only those since then */
                since_unix_millis?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    exports_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "volume" | "created";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of volumes of this pool */
                pool?: string;
                /** @description only those of volumes whose names begin so */
                name_prefix?: string;
                /** @description only those that this host sees */
                host?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Export"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    export_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExportCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Export"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    export_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Export"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    export_delete: {
        parameters: {
            query?: {
                /** @description also one in use: hosts get errors */
                force?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    history: {
        parameters: {
            query: {
                /** @description `array`, `pool:NAME` or `volume:NAME` */
                object: string;
                /** @description how far back */
                range: components["schemas"]["HistoryRange"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    hosts_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "created";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of this pool */
                pool?: string;
                /** @description only those whose names begin so */
                name_prefix?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    host_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HostCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    host_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the host */
                host: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    host_delete: {
        parameters: {
            query?: {
                /** @description also one that is logged in: its sessions end */
                force?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the host */
                host: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    host_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the host */
                host: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HostChange"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    io: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DoorIo"][];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    jobs_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "started";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of this kind */
                kind?: "check" | "scrub" | "rebuild" | "import" | "follow" | "verify";
                /** @description only those in this state */
                state?: "running" | "done" | "failed" | "cancelled";
                /** @description only those that work on an object of this name */
                name?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    job_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description id of the job */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    job_cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description id of the job */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the job as it is now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description imports are ended by root over the socket */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description it cannot be ended before its time */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    lab_results: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LabResult"][];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description the directory cannot be read */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    lab_result: {
        parameters: {
            query?: {
                /** @description an experiment of the paper */
                part?: string;
            };
            header?: never;
            path: {
                /** @description name of the result */
                result: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LabResult"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the directory cannot be read */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    lab_report: {
        parameters: {
            query?: {
                /** @description an experiment of the paper */
                part?: string;
            };
            header?: never;
            path: {
                /** @description name of the result */
                result: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the directory cannot be read */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    latencies: {
        parameters: {
            query: {
                /** @description `array`, `pool:NAME` or `volume:NAME` */
                object: string;
                /** @description how far back */
                range: components["schemas"]["HistoryRange"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Latencies"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    live: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the stream */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    marks_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "time";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of this kind */
                kind?: "by-hand" | "snapshot" | "job" | "event";
                /** @description only those about this volume, its database, its pool or the whole array */
                volume?: string;
                /** @description only those about this database, its volumes, its pool or the whole array */
                database?: string;
                /** @description only those since then */
                since_unix_millis?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Mark"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    mark_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MarkCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Mark"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            409: components["responses"]["busy"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    mark_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description id of the mark */
                mark: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Mark"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    mark_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description id of the mark */
                mark: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    objectives_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "left";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those in this pool */
                pool?: string;
                /** @description only those of databases and volumes whose names begin so */
                name_prefix?: string;
                /** @description only those that are used up, or are not */
                is_used_up?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Objective"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    objective_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the database or the volume */
                objective: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Objective"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    objective_set: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the database or the volume */
                objective: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ObjectiveSet"];
            };
        };
        responses: {
            /** @description it is changed */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Objective"];
                };
            };
            /** @description it is new */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Objective"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    objective_delete: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the database or the volume */
                objective: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pools_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "free" | "full";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those whose names begin so */
                name_prefix?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    pool_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_delete: {
        parameters: {
            query?: {
                /** @description though deleted volumes in it can still come back */
                force?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_check: {
        parameters: {
            query?: {
                /** @description compare every segment with its parity, too */
                is_deep?: boolean;
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckReport"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_dedupe: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Dedupe"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the pool does not serve */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    pool_dedupe_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DedupeRequest"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Dedupe"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description the pool does not serve */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    drives_add: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DrivesAdd"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    drive_remove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the pool */
                pool: string;
                /** @description number of the drive in its pool, from 0 */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    drive_set: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the pool */
                pool: string;
                /** @description number of the drive in its pool, from 0 */
                number: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DriveChange"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    drive_offline: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
                /** @description number of the drive in its pool, from 0 */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    drive_online: {
        parameters: {
            query?: {
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
                /** @description number of the drive in its pool, from 0 */
                number: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DriveOnline"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    drive_replace: {
        parameters: {
            query?: {
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
                /** @description number of the drive in its pool, from 0 */
                number: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DriveSpec"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    pool_export: {
        parameters: {
            query?: {
                /** @description close it though volumes are in use; their users then get errors */
                force?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_import: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolImport"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_reopen: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            /** @description the drives take no writes */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_scrub: {
        parameters: {
            query?: {
                /** @description `false`: answer at once with a job that goes on; `true` if absent */
                wait?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
                /** @description `respond-async` is the same as `wait=false` (RFC 7240) */
                Prefer?: string;
            };
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScrubReport"];
                };
            };
            /** @description it goes on as a job; also where it was over at once */
            202: {
                headers: {
                    /** @description where the job is */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_scrub_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScrubChange"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pool"];
                };
            };
            /** @description the request is wrong, or no scrub is under way */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    pool_space: {
        parameters: {
            query?: {
                /** @description answer at once by the last mark, do not walk */
                is_quick?: boolean;
                /** @description a walk ends after so long, 60 by default; the answer is then by the last mark and says so */
                within_seconds?: number;
            };
            header?: never;
            path: {
                /** @description name of the pool */
                pool: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolSpace"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the pool does not serve */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    reload: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reloaded"];
                };
            };
            /** @description there is no settings file, or a mistake in it */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            409: components["responses"]["busy"];
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedules_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "created" | "next";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those in this pool */
                pool?: string;
                /** @description only those whose names begin so */
                name_prefix?: string;
                /** @description only those that take snapshots of this database */
                database?: string;
                /** @description only those that take snapshots of this volume */
                volume?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedule_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScheduleCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description with proofs only for root over the socket */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    schedule_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the schedule */
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedule_delete: {
        parameters: {
            query?: {
                /** @description delete its snapshots, too */
                with_snapshots?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the schedule */
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleDeletion"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedule_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the schedule */
                schedule: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScheduleChange"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedule_pause: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the schedule */
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedule_resume: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the schedule */
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    schedule_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the schedule */
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    session: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    session_end: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description the request shows no session */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    password_change: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PasswordChange"];
            };
        };
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the password is wrong */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["forbidden"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            /** @description too many logins failed: `Retry-After` says when */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the file of users is damaged or cannot be written */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    session_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SessionCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionOpened"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the user or the password is wrong */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["forbidden"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            /** @description too many logins failed: `Retry-After` says when */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    settings_show: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ArraySettings"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    slow_requests: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SlowRequest"][];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshots_delete: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SnapshotsDelete"];
            };
        };
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshots_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "created" | "name" | "size";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those in this pool */
                pool?: string;
                /** @description only those whose names begin so */
                name_prefix?: string;
                /** @description only those of this volume */
                volume?: string;
                /** @description only those of a volume of this database */
                database?: string;
                /** @description only those that are held, or are not */
                is_held?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshot_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SnapshotCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshot_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the snapshot */
                snapshot: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshot_delete: {
        parameters: {
            query?: {
                /** @description though somebody reads it, who gets errors, or a clone is reset to it */
                force?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the snapshot */
                snapshot: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshot_hold: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the snapshot */
                snapshot: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["HoldRequest"] | null;
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    snapshot_release: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the snapshot */
                snapshot: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Snapshot"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    snapshot_restore: {
        parameters: {
            query?: {
                /** @description cut off NBD clients, and processes that have a file of a volume open */
                force?: boolean;
                /** @description keep nothing: what was written since is lost */
                no_backup?: boolean;
            };
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description name of the snapshot */
                snapshot: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Restored"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    space_holders: {
        parameters: {
            query?: {
                /** @description counting ends after so long, 60 by default */
                within_seconds?: number;
            };
            header?: never;
            path: {
                /** @description a volume, a snapshot, or VOLUME@SNAPSHOT */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Holders"];
                };
            };
            /** @description the request is wrong, or the name is ambiguous */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description not counted in the time allowed */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    space_reclaim: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReclaimRequest"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reclaim"];
                };
            };
            /** @description the request is wrong, or a name is ambiguous */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description not counted in the time allowed */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Status"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StopRequest"];
            };
        };
        responses: {
            /** @description it stops */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket, and for users and tokens of its role */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description a volume is in use */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description a volume could not be detached */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    tokens_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "created" | "expires";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those whose names begin so */
                name_prefix?: string;
                /** @description only those of this role */
                role?: "viewer" | "operator" | "admin";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiToken"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    token_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenCreated"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            /** @description the file of users is damaged or cannot be written */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    token_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the token */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiToken"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    token_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the token */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description the file of users is damaged or cannot be written */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    upgrade: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpgradeRequest"];
            };
        };
        responses: {
            /** @description it goes on with this program */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Program"];
                };
            };
            /** @description that program cannot take over */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            /** @description only for root over the socket */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            409: components["responses"]["busy"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    users_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "created";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those whose names begin so */
                name_prefix?: string;
                /** @description only those of this role */
                role?: "viewer" | "operator" | "admin";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    user_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            /** @description the file of users is damaged or cannot be written */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    user_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the user */
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    user_delete: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the user */
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            /** @description the file of users is damaged or cannot be written */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    user_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the user */
                user: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserChange"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["User"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            /** @description the file of users is damaged or cannot be written */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volumes_list: {
        parameters: {
            query?: {
                /** @description objects of a page at most; the header `Link` leads to the next one. Absent: all */
                limit?: number;
                /** @description where the page begins: of the `Link` of the page before, with the same order */
                cursor?: string;
                /** @description what to sort by, and by name where that is equal */
                sort?: "name" | "created" | "size" | "written" | "own";
                /** @description which way; ascending if absent */
                order?: "ascending" | "descending";
                /** @description only those of this pool */
                pool?: string;
                /** @description only those whose names begin so */
                name_prefix?: string;
                /** @description only those cloned from this: a snapshot, a volume, or VOLUME@SNAPSHOT */
                origin?: string;
                /** @description only those of this database */
                database?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description `<...>; rel="next"`: where the list goes on; absent at its end */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"][];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeCreate"];
            };
        };
        responses: {
            /** @description the answer */
            201: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    /** @description where the new object is, of several the first */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            422: components["responses"]["key-reused"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    volume_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_delete: {
        parameters: {
            query?: {
                /** @description though somebody uses it, who then gets errors, or a database has it */
                force?: boolean;
                /** @description delete it for good */
                now?: boolean;
            };
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeDeletion"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_resize: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumeResize"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_diff: {
        parameters: {
            query: {
                /** @description VOLUME or VOLUME@SNAPSHOT, of the same pool */
                with: string;
                /** @description where to begin; `next_bytes` of the answer before */
                from_bytes?: number;
                /** @description ranges to list at most, 1 to 10000; 1000 if absent */
                ranges_count?: number;
                /** @description how long it may take, 1 to 3600; 60 if absent */
                within_seconds?: number;
            };
            header?: never;
            path: {
                /** @description VOLUME or VOLUME@SNAPSHOT */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeDiff"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description it would take longer, or the pool has no room left */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_disconnect: {
        parameters: {
            query?: never;
            header?: {
                /** @description made up for this request, 1 to 255 visible ASCII letters: sent again with the same request within 24 hours it does nothing and gets the first answer, if that was a success. Kept in memory */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description VOLUME, its snapshots included, or VOLUME@SNAPSHOT */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Disconnected"];
                };
            };
            400: components["responses"]["invalid"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            409: components["responses"]["busy"];
            413: components["responses"]["too-large"];
            422: components["responses"]["key-reused"];
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_set: {
        parameters: {
            query?: never;
            header?: {
                /** @description the `ETag` of the object as it was seen, several with commas between, or `*`: refused with 412 if it is not so any more */
                "If-Match"?: string;
            };
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VolumePolicy"];
            };
        };
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    /** @description names the state of what people set of the object, for `If-Match` */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Volume"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description taken, in use, or read-only */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["changed"];
            413: components["responses"]["too-large"];
            415: components["responses"]["media-type"];
            503: components["responses"]["closed"];
            /** @description no space left */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            default: components["responses"]["other"];
        };
    };
    volume_profile: {
        parameters: {
            query?: {
                /** @description how long to count, 1 to 60; absent: since the array started */
                seconds?: number;
            };
            header?: never;
            path: {
                /** @description name of the volume */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IoProfile"];
                };
            };
            /** @description the request is wrong */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
    volume_users: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description VOLUME, its snapshots included, or VOLUME@SNAPSHOT */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeUser"][];
                };
            };
            401: components["responses"]["unauthorized"];
            403: components["responses"]["forbidden"];
            /** @description no such object */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description a drive or a tool of this machine failed */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            503: components["responses"]["closed"];
            default: components["responses"]["other"];
        };
    };
}
